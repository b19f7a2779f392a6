//go:build clusterapi

// Package bed runs Cluster API's real controllers on one machine, as plain
// processes on loopback: etcd, kube-apiserver, a controller manager for its
// garbage collector and namespaces, Cluster API core, kubeadm bootstrap,
// kubeadm control plane, the in-memory infrastructure, and memstack, which
// answers for the OpenStack provider. build.sh compiles them.
package bed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
)

// Bed is one running management cluster.
type Bed struct {
	Config     *rest.Config // of an admin
	Kubeconfig string
	// RealProvider reports whether the OpenStack provider's own schemas are
	// served; if not, any spec is taken.
	RealProvider bool

	folder string
	bin    string
	stops  []func()
}

// Options choose what runs.
type Options struct {
	Controllers bool // else kube-apiserver and the schemas only
	// WholeObjects makes a status part of its object: what a benchmark writes
	// is half as many calls then.
	WholeObjects bool
	Log          func(format string, args ...any)
}

// Start brings a bed up; Stop must be called, also after an error.
func Start(ctx context.Context, o Options) (*Bed, error) {
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	b := &Bed{bin: os.Getenv("CARAFE_CLUSTERAPI_BIN")}
	if b.bin == "" {
		return b, errors.New("CARAFE_CLUSTERAPI_BIN names no folder: run test/clusterapi/run.sh")
	}
	folder, err := os.MkdirTemp("", "carafe-clusterapi-")
	if err != nil {
		return b, err
	}
	b.folder = folder
	if o.Controllers {
		if err := b.lock(); err != nil {
			return b, err
		}
	}
	begin := time.Now()
	said := func(what string) { o.Log("%5.1f s %s", time.Since(begin).Seconds(), what) }
	keys, err := makeKeys(folder)
	if err != nil {
		return b, err
	}
	if err := b.startKubernetes(ctx, keys); err != nil {
		return b, err
	}
	said("kube-apiserver answers")
	ports, err := freePorts(12)
	if err != nil {
		return b, err
	}
	if err := b.installSchemas(ctx, keys, ports[:4], o); err != nil {
		return b, err
	}
	said("schemas are served")
	if !o.Controllers {
		return b, nil
	}
	if err := b.startControllers(ctx, keys, ports); err != nil {
		return b, err
	}
	said("controllers are ready")
	return b, nil
}

// Stop ends all that Start began, newest first.
func (b *Bed) Stop() {
	for i := len(b.stops) - 1; i >= 0; i-- {
		b.stops[i]()
	}
	b.stops = nil
	if b.folder != "" && os.Getenv("CARAFE_CLUSTERAPI_KEEP") == "" {
		_ = os.RemoveAll(b.folder)
	}
}

// lock waits until no other bed runs controllers on this machine: the in-memory
// machines' API servers always begin at port 20000.
func (b *Bed) lock() error {
	f, err := os.OpenFile(filepath.Join(os.TempDir(), "carafe-clusterapi.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	b.stops = append(b.stops, func() { _ = f.Close() }) // which unlocks
	return nil
}

// Do sends one request to the management cluster's API as an admin.
func (b *Bed) Do(ctx context.Context, method, path, contentType string, body []byte) ([]byte, error) {
	c, err := b.client()
	if err != nil {
		return nil, err
	}
	r := c.Verb(method).RequestURI(path)
	if body != nil {
		r = r.SetHeader("Content-Type", contentType).Body(body)
	}
	return r.Do(ctx).Raw()
}

// Logs is the folder of the processes' logs.
func (b *Bed) Logs() string { return b.folder }

// spawn starts a process that ends with this one, whatever happens.
func (b *Bed) spawn(name string, env []string, arguments ...string) error {
	log, err := os.Create(filepath.Join(b.folder, name+".log"))
	if err != nil {
		return err
	}
	started := make(chan error, 1)
	done := make(chan struct{})
	var cmd *exec.Cmd
	// Pdeathsig is bound to the thread that forks: it must live on.
	go func() {
		runtime.LockOSThread()
		defer close(done)
		defer log.Close()
		cmd = exec.Command(filepath.Join(b.bin, name), arguments...)
		cmd.Env = append(os.Environ(), env...)
		cmd.Stdout, cmd.Stderr = log, log
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	b.stops = append(b.stops, func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-done:
		case <-time.After(5 * time.Second):
			_ = cmd.Process.Kill()
			<-done
		}
	})
	return nil
}

func (b *Bed) startKubernetes(ctx context.Context, k *keys) error {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	client, peer := fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	err = b.spawn("etcd", nil, "--data-dir="+filepath.Join(b.folder, "etcd"), "--unsafe-no-fsync", "--log-level=error",
		"--listen-client-urls="+client, "--advertise-client-urls="+client, "--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer)
	if err != nil {
		return err
	}
	server := fmt.Sprintf("https://127.0.0.1:%d", ports[2])
	err = b.spawn("kube-apiserver", nil, "--etcd-servers="+client, fmt.Sprintf("--secure-port=%d", ports[2]), "--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", "--client-ca-file="+k.ca, "--tls-cert-file="+k.cert,
		"--tls-private-key-file="+k.key, "--authorization-mode=RBAC", "--service-account-issuer="+server,
		"--service-account-key-file="+k.accountPublic, "--service-account-signing-key-file="+k.account,
		"--service-cluster-ip-range=10.0.0.0/24", "--disable-admission-plugins=ServiceAccount",
		"--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000")
	if err != nil {
		return err
	}
	b.Config = &rest.Config{Host: server, QPS: 200, Burst: 400, TLSClientConfig: rest.TLSClientConfig{CAFile: k.ca, CertFile: k.adminCert, KeyFile: k.adminKey}}
	b.Kubeconfig = filepath.Join(b.folder, "kubeconfig")
	if err := writeKubeconfig(b.Kubeconfig, server, k); err != nil {
		return err
	}
	c, err := b.client()
	if err != nil {
		return err
	}
	err = until(ctx, 5*time.Minute, func(ctx context.Context) error {
		return c.Get().AbsPath("/readyz").Do(ctx).Error()
	})
	if err != nil {
		return fmt.Errorf("kube-apiserver: %w", err)
	}
	return b.spawn("kube-controller-manager", nil, "--kubeconfig="+b.Kubeconfig, "--leader-elect=false", "--secure-port=0",
		"--use-service-account-credentials=false", "--controllers=garbage-collector-controller,namespace-controller",
		"--concurrent-gc-syncs=20", "--kube-api-qps=200", "--kube-api-burst=400")
}

// controllers are Cluster API's managers with the flags that bound their work:
// their defaults are too much for two cores.
var controllers = []struct {
	name        string
	concurrency []string
}{
	{"capi-core", []string{"machine", "machineset", "machinedeployment", "cluster", "clustercache", "machinehealthcheck"}},
	{"capi-bootstrap", []string{"kubeadmconfig", "clustercache"}},
	{"capi-controlplane", []string{"kubeadmcontrolplane", "clustercache"}},
	{"capi-infrastructure", []string{"devmachine", "devcluster", "clustercache"}},
}

func (b *Bed) startControllers(ctx context.Context, k *keys, ports []int) error {
	webhook, health, diagnostics := ports[:4], ports[4:8], ports[8:12]
	for i, c := range controllers {
		flags := []string{
			"--feature-gates=ClusterTopology=false,MachinePool=false,KubeadmBootstrapFormatIgnition=true", fmt.Sprintf("--webhook-port=%d", webhook[i]), "--webhook-cert-dir=" + k.folder,
			fmt.Sprintf("--health-addr=127.0.0.1:%d", health[i]), fmt.Sprintf("--diagnostics-address=127.0.0.1:%d", diagnostics[i]),
			"--insecure-diagnostics", "--kube-api-qps=200", "--kube-api-burst=400", "--sync-period=10m",
		}
		for _, name := range c.concurrency {
			flags = append(flags, "--"+name+"-concurrency=8")
		}
		env := []string{"KUBECONFIG=" + b.Kubeconfig, "POD_IP=127.0.0.1", "POD_NAMESPACE=capi-system", "POD_NAME=" + c.name, "POD_UID=" + c.name}
		if err := b.spawn(c.name, env, flags...); err != nil {
			return err
		}
	}
	one, err := freePorts(1)
	if err != nil {
		return err
	}
	address := fmt.Sprintf("127.0.0.1:%d", one[0])
	if err := b.spawn("memstack", []string{"KUBECONFIG=" + b.Kubeconfig}, "-health-addr="+address); err != nil {
		return err
	}
	for _, p := range append(health, one[0]) {
		err := until(ctx, 5*time.Minute, func(ctx context.Context) error {
			return ready(ctx, fmt.Sprintf("http://127.0.0.1:%d/readyz", p))
		})
		if err != nil {
			return fmt.Errorf("a controller is not ready, see %s: %w", b.folder, err)
		}
	}
	return b.installWebhooks(ctx, k, webhook)
}

func ready(ctx context.Context, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	return nil
}

// until tries f until it works.
func until(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var last error
	for {
		if err := f(ctx); err == nil {
			return nil
		} else if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return last
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// freePorts finds ports that nobody has, below those that the kernel gives to
// outgoing connections: between here and their use nobody takes them by chance.
func freePorts(n int) ([]int, error) {
	var out []int
	for range 1000 {
		port := 24000 + rand.IntN(8000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		defer l.Close()
		if out = append(out, port); len(out) == n {
			return out, nil
		}
	}
	return nil, errors.New("no free ports between 24000 and 32000")
}

// Root is the project's folder.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Clean(filepath.Join(filepath.Dir(file), "../../.."))
}

// modules are the folders of Go modules that the managers are built from.
func modules(ctx context.Context, names ...string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-m", "-f", "{{.Dir}}"}, names...)...)
	cmd.Dir = filepath.Join(Root(), "test/clusterapi/build/managers")
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("find the modules: %w", err)
	}
	return strings.Fields(string(out)), nil
}
