package knative

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// TestManifestsAsProcesses runs what the manifests say without a cluster: each Service's
// container as a process with its arguments, settings, mounts and user, started by the
// first request as from zero; around them an ingress that follows the HTTPRoutes, a broker
// that follows the Triggers, and the PingSources' ticks. Names of hosts are those that
// Knative uses. What only a cluster can show is smoke.sh's.
func TestManifestsAsProcesses(t *testing.T) {
	n := newNode(t, render(t, "testdata/processes"))
	n.ready(http.StatusServiceUnavailable) // there is no schema yet
	n.migrate()
	n.ready(http.StatusOK)
	for _, p := range n.pods {
		p.stop() // to zero
	}
	n.tick("relay")
	n.tick("statussync")

	n.must("POST", "/v1/clustertemplates", `{"name": "small", "coe": "kubernetes", "image_id": "ubuntu", "external_network_id": "public", "labels": {"kube_tag": "v1.34.1"}}`)
	n.must("POST", "/v1/clustertemplates", `{"name": "next", "coe": "kubernetes", "image_id": "ubuntu", "external_network_id": "public", "labels": {"kube_tag": "v1.35.0"}}`)
	n.must("POST", "/v1/clusters", `{"name": "c", "cluster_template_id": "small", "node_count": 2}`)
	n.settled("CREATE_COMPLETE")
	n.must("POST", "/v1/clusters/c/actions/resize", `{"node_count": 3}`)
	n.settled("UPDATE_COMPLETE")
	n.must("POST", "/v1/clusters/c/nodegroups", `{"name": "extra", "node_count": 1}`)
	n.settled("UPDATE_COMPLETE")
	n.must("DELETE", "/v1/clusters/c/nodegroups/extra", "")
	n.settled("UPDATE_COMPLETE")
	n.must("POST", "/v1/clusters/c/actions/upgrade", `{"cluster_template": "next"}`)
	n.settled("UPDATE_COMPLETE")
	n.must("PATCH", "/v1/certificates/c", "")
	n.settled("UPDATE_COMPLETE")
	if k := n.must("GET", "/v1/clusters/c", ""); k["node_count"] != 3.0 || k["coe_version"] != "v1.35.0" {
		t.Errorf("in the end the cluster is %v", k)
	}
	for _, path := range []string{"/", "/v1", "/v1/stats", "/v1/quotas", "/v1/mservices", "/v1/federations", "/v1/certificates/c"} {
		links, err := json.Marshal(n.must("GET", path, ""))
		if err != nil || bytes.Contains(links, []byte("svc.cluster.local")) || bytes.Contains(links, []byte("127.0.0.1")) {
			t.Errorf("GET %s shows where the function is: %s", path, links)
		}
	}
	n.must("DELETE", "/v1/clusters/c", "")
	n.settled("") // gone
	for _, kind := range []string{"cluster.create", "cluster.resize", "nodegroup.create", "nodegroup.delete", "cluster.upgrade", "ca.rotate", "cluster.delete"} {
		if n.delivered("magnum.conductor."+kind) == 0 {
			t.Errorf("no event of type magnum.conductor.%s came through the broker", kind)
		}
	}
	if lost := n.delivered("dead letter"); lost > 0 {
		t.Errorf("%d events went to the dead letter sink", lost)
	}
}

// node runs an installation's Services.
type node struct {
	listening int
	t         *testing.T
	objects   installation
	binary    string
	database  string
	folder    string // stands for /etc/carafe
	pods      map[string]*pod
	ingress   *httptest.Server
	broker    *httptest.Server

	mu    sync.Mutex
	count map[string]int // deliveries by event type
}

func newNode(t *testing.T, i installation) *node {
	n := &node{t: t, objects: i, binary: program(t), database: newDatabase(t), folder: folder(t), pods: map[string]*pod{}, count: map[string]int{}}
	n.broker = httptest.NewServer(http.HandlerFunc(n.publish))
	t.Cleanup(n.broker.Close)
	n.ingress = httptest.NewServer(http.HandlerFunc(n.enter))
	t.Cleanup(n.ingress.Close)
	for _, s := range i.of(serving, "Service") {
		container := at(s, "spec", "template", "spec", "containers", 0)
		settings := n.settings(container)
		for name, value := range map[string]string{"PORT": "8080", "K_SERVICE": s.name(), "K_CONFIGURATION": s.name(), "K_REVISION": s.name() + "-00001"} {
			settings[name] = value
		}
		if n.bound(s) {
			settings["K_SINK"] = n.broker.URL + "/carafe/carafe"
		}
		n.mount(s, container)
		n.pods[s.name()] = n.newPod(s.name(), strs(container, "args"), settings)
	}
	return n
}

// settings are a container's variables.
func (n *node) settings(container any) map[string]string {
	settings := map[string]string{}
	for _, from := range list(container, "envFrom") {
		for kind, ref := range map[string]string{"ConfigMap": "configMapRef", "Secret": "secretRef"} {
			name := text(from, ref, "name")
			if name == "" {
				continue
			}
			data, found := n.data(kind, name)
			if optional, _ := at(from, ref, "optional").(bool); !found && !optional {
				n.t.Fatalf("there is no %s %s", kind, name)
			}
			for k, v := range data {
				settings[k] = v
			}
		}
	}
	for _, e := range list(container, "env") {
		settings[text(e, "name")] = text(e, "value")
	}
	return settings
}

func (n *node) data(kind, name string) (map[string]string, bool) {
	for _, o := range n.objects.of("", kind) {
		if o.name() != name {
			continue
		}
		data := map[string]string{}
		entries, _ := at(o, "data").(map[string]any)
		for k, v := range entries {
			data[k] = v.(string)
			if kind == "Secret" {
				clear, err := base64.StdEncoding.DecodeString(data[k])
				if err != nil {
					n.t.Fatal(err)
				}
				data[k] = string(clear)
			}
		}
		return data, true
	}
	return nil, false
}

// bound tells whether the SinkBinding selects the Service.
func (n *node) bound(s object) bool {
	for _, b := range n.objects.of(sources, "SinkBinding") {
		wanted, _ := at(b, "spec", "subject", "selector", "matchLabels").(map[string]any)
		for k, v := range wanted {
			if text(s, "metadata", "labels", k) != v {
				return false
			}
		}
		return len(wanted) > 0
	}
	return false
}

// mount writes the ConfigMaps that a container mounts.
func (n *node) mount(s object, container any) {
	for _, m := range list(container, "volumeMounts") {
		for _, v := range list(s, "spec", "template", "spec", "volumes") {
			data, found := n.data("ConfigMap", text(v, "configMap", "name"))
			if text(v, "name") != text(m, "name") || !found {
				continue
			}
			dir := n.here(text(m, "mountPath"))
			if err := os.MkdirAll(dir, 0o755); err != nil {
				n.t.Fatal(err)
			}
			for file, content := range data {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o644); err != nil {
					n.t.Fatal(err)
				}
			}
		}
	}
}

func (n *node) here(path string) string { return strings.Replace(path, "/etc/carafe", n.folder, 1) }

// ready starts all pods and waits until their probes are answered so.
func (n *node) ready(status int) {
	n.t.Helper()
	for _, p := range n.pods {
		p.start()
	}
	for _, p := range n.pods {
		if !p.await(status) {
			n.t.FailNow()
		}
	}
}

// migrate runs the Job.
func (n *node) migrate() {
	n.t.Helper()
	for _, j := range n.objects.of("batch", "Job") {
		container := at(j, "spec", "template", "spec", "containers", 0)
		job := n.newPod(j.name(), strs(container, "args"), n.settings(container))
		if err := job.command().Run(); err != nil {
			n.t.Fatalf("%s: %v\n%s", j, err, &job.log)
		}
		return
	}
	n.t.Fatal("there is no Job")
}

// enter leads a request as the Gateway and Knative's ingress do.
func (n *node) enter(w http.ResponseWriter, r *http.Request) {
	to := leadsTo(n.t, n.objects.of("gateway.networking.k8s.io", "HTTPRoute"), r.URL.Path)
	if len(to) != 1 {
		http.Error(w, "no route", http.StatusNotFound)
		return
	}
	r.Header.Set("X-Forwarded-Host", "magnum.example.org")
	n.pods[to[0]].forward(w, r)
}

// publish takes an event and answers once its subscribers have, as the in-memory broker.
func (n *node) publish(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.URL.Path != "/carafe/carafe" || r.Header.Get("Ce-Id") == "" {
		http.Error(w, "no event", http.StatusBadRequest)
		return
	}
	for _, trigger := range n.objects.of(eventing, "Trigger") {
		if text(trigger, "spec", "filter", "attributes", "type") != r.Header.Get("Ce-Type") {
			continue
		}
		n.seen(r.Header.Get("Ce-Type"))
		status := 0
		for range 1 + number(at(trigger, "spec", "delivery", "retry")) {
			if status = n.pods[text(trigger, "spec", "subscriber", "ref", "name")].deliver(r.Header, body); status < 300 {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if status >= 300 {
			n.seen("dead letter")
			n.pods[text(trigger, "spec", "delivery", "deadLetterSink", "ref", "name")].deliver(r.Header, body)
		}
	}
	w.WriteHeader(http.StatusAccepted)
}

func (n *node) seen(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count[what]++
}

func (n *node) delivered(what string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.count[what]
}

// tick sends what a PingSource sends, oftener than its schedule says, until the test ends.
func (n *node) tick(source string) {
	done := make(chan struct{})
	n.t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		n.ping(source)
	}()
}

func (n *node) ping(source string) {
	for _, p := range n.objects.of(sources, "PingSource") {
		if p.name() != source {
			continue
		}
		for id := 1; n.t.Context().Err() == nil; id++ {
			event := http.Header{"Ce-Specversion": {"1.0"}, "Ce-Id": {fmt.Sprint(id)}, "Ce-Type": {"dev.knative.sources.ping"},
				"Ce-Source": {"/apis/v1/namespaces/carafe/pingsources/" + source}, "Ce-Time": {time.Now().UTC().Format(time.RFC3339Nano)}}
			n.pods[text(p, "spec", "sink", "ref", "name")].deliver(event, nil)
			time.Sleep(300 * time.Millisecond)
		}
	}
}

// must sends a request through the ingress.
func (n *node) must(method, path, body string) map[string]any {
	n.t.Helper()
	answer, status := n.ask(method, path, body)
	if status >= 300 {
		n.t.Fatalf("%s %s: %d %v", method, path, status, answer)
	}
	return answer
}

func (n *node) ask(method, path, body string) (map[string]any, int) {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), method, n.ingress.URL+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("OpenStack-API-Version", "container-infra latest")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil && resp.StatusCode < 300 && resp.StatusCode != http.StatusNoContent {
		answer = map[string]any{"error": err.Error()}
	}
	return answer, resp.StatusCode
}

// settled waits until the cluster has the status; empty: until it is gone.
func (n *node) settled(status string) {
	n.t.Helper()
	var k map[string]any
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var code int
		if k, code = n.ask("GET", "/v1/clusters/c", ""); k["status"] == status || status == "" && code == http.StatusNotFound {
			return
		}
	}
	n.t.Fatalf("the cluster does not become %s: %v, %v", status, k["status"], k["status_reason"])
}

// pod is one Service's only instance.
type pod struct {
	n    *node
	name string
	args []string
	env  []string
	url  string

	mu  sync.Mutex
	cmd *exec.Cmd // nil at zero
	log syncBuffer
}

// newPod takes the settings with what differs where all pods share one machine.
func (n *node) newPod(name string, args []string, settings map[string]string) *pod {
	if len(args) == 0 {
		n.t.Fatalf("%s has no arguments", name)
	}
	p := &pod{n: n, name: name, args: args}
	if _, ok := settings["CARAFE_LISTEN"]; ok {
		if got := settings["CARAFE_LISTEN"]; got != "127.0.0.1:"+settings["PORT"] {
			n.t.Errorf("%s listens on %s, and Knative looks for it on port %s", name, got, settings["PORT"])
		}
		// An address of its own, as a pod has: a port that was free when the test began
		// may be taken when the first request comes.
		n.listening++
		pid := os.Getpid()
		settings["CARAFE_LISTEN"] = fmt.Sprintf("127.%d.%d.%d:%s", 64+pid>>8&63, pid&255, n.listening, settings["PORT"])
		p.url = "http://" + settings["CARAFE_LISTEN"]
	}
	if settings["CARAFE_METRICS_ADDRESS"] != "" {
		settings["CARAFE_METRICS_ADDRESS"] = "127.0.0.1:0"
	}
	settings["CARAFE_DATABASE_URL"] = n.database
	for k, v := range settings {
		p.env = append(p.env, k+"="+n.here(v))
	}
	n.t.Cleanup(func() {
		p.stop()
		if n.t.Failed() {
			n.t.Logf("%s wrote:\n%s", name, &p.log)
		}
	})
	return p
}

// command is the container's process: nobody's, at home nowhere.
func (p *pod) command() *exec.Cmd {
	cmd := exec.Command(p.n.binary, p.args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = p.env, "/", &p.log, &p.log
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65532, Gid: 65532}
	}
	return cmd
}

func (p *pod) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil || p.n.t.Context().Err() != nil {
		return
	}
	cmd := p.command()
	if err := cmd.Start(); err != nil {
		p.n.t.Errorf("%s: %v", p.name, err)
		return
	}
	p.cmd = cmd
}

// stop ends it as the kubelet does.
func (p *pod) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil {
		p.n.t.Errorf("%s ends with %v", p.name, err)
	}
	p.cmd = nil
}

// await asks as queue-proxy does until the answer has the status.
func (p *pod) await(status int) bool {
	got := 0
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		r, err := http.NewRequestWithContext(p.n.t.Context(), http.MethodGet, p.url+"/readyz", nil)
		if err != nil {
			p.n.t.Error(err)
			return false
		}
		r.Header.Set("K-Network-Probe", "queue")
		if resp, err := http.DefaultClient.Do(r); err == nil {
			_ = resp.Body.Close()
			if got = resp.StatusCode; got == status {
				return true
			}
		} else if p.n.t.Context().Err() != nil {
			return false // the test has ended
		}
	}
	p.n.t.Errorf("%s answers probes with %d, not %d", p.name, got, status)
	return false
}

// send brings a request to the instance under the name that it has in the cluster; at
// zero it is started, and the request waits.
func (p *pod) send(ctx context.Context, method, path string, header http.Header, body io.Reader) (*http.Response, error) {
	p.start()
	p.await(http.StatusOK)
	r, err := http.NewRequestWithContext(ctx, method, p.url+path, body)
	if err != nil {
		return nil, err
	}
	r.Header, r.Host = header.Clone(), p.name+".carafe.svc.cluster.local"
	return http.DefaultClient.Do(r)
}

func (p *pod) forward(w http.ResponseWriter, r *http.Request) {
	resp, err := p.send(r.Context(), r.Method, r.URL.RequestURI(), r.Header, r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	for k, v := range resp.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body) // the client sees what is missing
}

func (p *pod) deliver(event http.Header, body []byte) int {
	header := http.Header{"Content-Type": {"application/json"}}
	if body == nil {
		header = http.Header{}
	}
	for k, v := range event {
		if strings.HasPrefix(k, "Ce-") {
			header[k] = v
		}
	}
	resp, err := p.send(context.WithoutCancel(p.n.t.Context()), http.MethodPost, "/", header, bytes.NewReader(body))
	if err != nil {
		return http.StatusBadGateway
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// program is Carafe's binary, where every user may run it.
func program(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(folder(t), "carafe")
	if built := os.Getenv("CARAFE_BIN"); built != "" {
		b, err := os.ReadFile(built)
		if err == nil {
			err = os.WriteFile(binary, b, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		return binary
	}
	build := exec.Command("go", "build", "-o", binary, "./functions/carafe")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build carafe: %v\n%s", err, out)
	}
	return binary
}

// folder is a temporary one into which every user may look.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// newDatabase makes an empty database on the server that make test starts.
func newDatabase(t *testing.T) string {
	t.Helper()
	server := os.Getenv("CARAFE_TEST_DATABASE_URL")
	if server == "" {
		t.Fatal("CARAFE_TEST_DATABASE_URL is not set: run the tests with make test, or from here with go -C ../.. run ./test/withpostgres go -C test/knative test")
	}
	config, err := pgx.ParseConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("carafe_processes_%d", os.Getpid())
	run := func(sql string) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		db, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return err
		}
		defer db.Close(ctx)
		_, err = db.Exec(ctx, sql)
		return err
	}
	if err := run("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := run("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	network, address := pgconn.NetworkAddress(config.Host, config.Port)
	host, port, _ := net.SplitHostPort(reachable(t, network, address))
	return fmt.Sprintf("host=%s port=%s user=%s password='%s' dbname=%s sslmode=disable", host, port, config.User, config.Password, name)
}

// reachable gives a TCP address for PostgreSQL's, which may be a socket that is only its
// owner's.
func reachable(t *testing.T, network, address string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial(network, address)
			if err != nil {
				_ = client.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
				go func() {
					_, _ = io.Copy(way[0], way[1])
					_ = way[0].Close()
				}()
			}
		}
	}()
	return l.Addr().String()
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
