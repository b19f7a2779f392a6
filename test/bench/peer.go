package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// peerScript starts Magnum, and what it and Carafe share.
const peerScript = "test/bench/peer/magnum.py"

// project is one of Keystone's with a token for it.
type project struct{ ID, Token string }

// peer is a running Magnum, as peerScript describes it.
type peer struct {
	Address        string
	DatabaseSocket string `json:"database_socket"`
	Projects       map[string]project
	Versions       map[string]string

	state string
	cloud struct { // the OpenStack around it
		AuthURL          string `json:"auth_url"`
		Region, Password string
	}
}

// side is one of the two that are compared.
type side struct {
	name    string
	address string
	server  func() time.Duration // CPU of what answers requests
	others  func() time.Duration // CPU of what works after the answer, if that is not the same process
	store   func() time.Duration // CPU of its database
	// inProgress counts clusters that are still being made.
	inProgress     func() (int, error)
	template, show string // identifiers of a template of demo's and a cluster of p10's
}

// pair is a measurement of both.
type pair struct{ carafe, peer row }

// making is what creates came to.
type making struct {
	answered, visible, all    time.Duration // p50, p50; from the first request to the last CREATE_COMPLETE
	server, whole, store, sky time.Duration // CPU for each: until the end, of all; sky is OpenStack's
}

// madePair is making of both, with the same number of clients.
type madePair struct {
	clients, each int
	carafe, peer  making
}

// besidePeer does the same work with Carafe and with Magnum, by turns, in one
// cloud, and writes the ratios.
func (b *bench) besidePeer(ctx context.Context, out string, facts []string, quick bool) (err error) {
	theirs, err := b.startPeer(ctx)
	defer func() { err = errors.Join(err, theirs.down(ctx)) }()
	if err != nil {
		return err
	}
	database, conn, err := b.database(ctx, "peer")
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	p, err := b.start(database, "/v1", []string{
		"CARAFE_KEYSTONE_URL=" + theirs.cloud.AuthURL, "CARAFE_KEYSTONE_USERNAME=carafe", "CARAFE_KEYSTONE_PASSWORD=" + theirs.cloud.Password,
		"CARAFE_OPENSTACK_REGION=" + theirs.cloud.Region, "CARAFE_OPENSTACK_TIMEOUT=30s", "CARAFE_DRIVERS=simulated",
	})
	if err != nil {
		return err
	}
	defer func() { _ = p.stop() }()
	none := func() time.Duration { return 0 }
	carafe := &side{name: "Carafe", address: p.address, server: p.cpu, others: none, store: b.postgresCPU,
		inProgress: func() (n int, err error) {
			err = conn.QueryRow(ctx, "SELECT count(*) FROM clusters WHERE status = 'CREATE_IN_PROGRESS'").Scan(&n)
			return n, err
		}}
	magnum := &side{name: "Magnum", address: theirs.Address, server: theirs.cpu("magnum-api"),
		others: theirs.cpu("magnum-conductor", "rabbitmq"), store: theirs.cpu("mariadb"),
		inProgress: func() (int, error) {
			text, err := theirs.sql("SELECT count(*) FROM cluster WHERE status = 'CREATE_IN_PROGRESS'")
			if err != nil {
				return 0, err
			}
			return strconv.Atoi(strings.TrimSpace(text))
		}}
	sky := theirs.cpu("keystone", "glance", "neutron", "nova")

	var made []madePair
	turns := []madePair{{clients: 1, each: 10}, {clients: 8, each: 3}}
	if quick {
		turns = []madePair{{clients: 1, each: 3}, {clients: 8, each: 1}}
	}
	for _, s := range []*side{carafe, magnum} {
		if err := s.makeTemplate(theirs.Projects["demo"]); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if _, err := s.create(ctx, theirs.Projects["demo"], 1, 2, sky); err != nil { // warms up
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	for _, t := range turns {
		for _, of := range []struct {
			side *side
			into *making
		}{{carafe, &t.carafe}, {magnum, &t.peer}} {
			if *of.into, err = of.side.create(ctx, theirs.Projects["demo"], t.clients, t.each, sky); err != nil {
				return fmt.Errorf("%s: %w", of.side.name, err)
			}
			b.say("%s, create, %d clients: 202 after %s, visible after %s, all made after %s, CPU %s + %s", of.side.name, t.clients,
				ms(of.into.answered), ms(of.into.visible), ms(of.into.all), ms(of.into.whole), ms(of.into.store))
		}
		made = append(made, t)
	}
	memory := []figure{
		{"Carafe, all functions, after the creates", mib(treePSS(p.cmd.Process.Pid))},
		{"magnum-api, 2 workers, after the creates", mib(theirs.memory("magnum-api"))},
		{"magnum-conductor, 1 worker", mib(theirs.memory("magnum-conductor"))},
		{"RabbitMQ", mib(theirs.memory("rabbitmq") + theirs.memory("epmd"))},
	}
	// With a thousand clusters its rounds would take from what is measured.
	if err := theirs.script(ctx, "stop", theirs.state, "magnum-conductor"); err != nil {
		return err
	}
	if err := b.fillBoth(ctx, conn, theirs, carafe, magnum); err != nil {
		return err
	}
	rows, err := b.reading(ctx, theirs.Projects, carafe, magnum, quick)
	if err != nil {
		return err
	}
	memory = append(memory,
		figure{"Carafe, all functions, after the reads", mib(treePSS(p.cmd.Process.Pid))},
		figure{"magnum-api after the reads", mib(theirs.memory("magnum-api"))})
	for _, m := range memory {
		b.say("%s: %s", m.name, m.value)
	}
	text := b.peerReport(facts, theirs.Versions, rows, made, memory)
	fmt.Printf("\n%s\n", text)
	if err := p.stop(); err != nil || quick {
		return err
	}
	file := filepath.Join(out, b.began.UTC().Format(time.DateOnly)+"-peer.md")
	b.say("written to %s", file)
	return os.WriteFile(file, []byte(text), 0o644)
}

// reading measures requests that change nothing, each with one and then with the other.
func (b *bench) reading(ctx context.Context, projects map[string]project, carafe, magnum *side, quick bool) ([]pair, error) {
	get := func(in, path string) func(*side) request {
		return func(*side) request {
			return request{method: http.MethodGet, path: path, token: projects[in].Token, want: http.StatusOK}
		}
	}
	clients, runs, ours, theirs := []int{1, 8, 32}, b.runs, b.length, 5*time.Second
	if quick {
		clients, theirs = []int{1, 32}, 2*time.Second
	}
	var rows []pair
	for _, w := range []struct {
		name    string
		request func(*side) request
	}{
		{"list of 10", get("p10", "/v1/clusters")},
		{"list 20 of 1,000", get("p1000", "/v1/clusters?limit=20")},
		{"detail list of 10", get("p10", "/v1/clusters/detail")},
		{"show", func(s *side) request {
			return request{method: http.MethodGet, path: "/v1/clusters/" + s.show, token: projects["p10"].Token, want: http.StatusOK}
		}},
		{"template list of 10", get("p10", "/v1/clustertemplates")},
	} {
		for _, n := range clients {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			var both pair
			var err error
			if both.carafe, err = sample(carafe.address, work{w.name, constant(w.request(carafe))}, n, runs, ours, carafe.server, carafe.store); err != nil {
				return nil, fmt.Errorf("%s: %w", carafe.name, err)
			}
			b.say("%-8s%s", carafe.name, both.carafe)
			if both.peer, err = sample(magnum.address, work{w.name, constant(w.request(magnum))}, n, 1, theirs, magnum.server, magnum.store); err != nil {
				return nil, fmt.Errorf("%s: %w", magnum.name, err)
			}
			b.say("%-8s%s", magnum.name, both.peer)
			rows = append(rows, both)
		}
	}
	return rows, nil
}

// call makes one request and decodes the answer into what, which may be nil.
func (s *side) call(of project, method, path, body string, what any) (status int, err error) {
	req, err := http.NewRequest(method, "http://"+s.address+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("X-Auth-Token", of.Token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("OpenStack-API-Version", "container-infra 1.14")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(resp.Body); err != nil {
		return 0, err
	}
	if resp.StatusCode >= 300 {
		return resp.StatusCode, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text.String())
	}
	if what == nil {
		return resp.StatusCode, nil
	}
	return resp.StatusCode, json.Unmarshal(text.Bytes(), what)
}

func (s *side) makeTemplate(of project) error {
	var made struct{ UUID string }
	_, err := s.call(of, http.MethodPost, "/v1/clustertemplates", `{"name":"bench","coe":"kubernetes","image_id":"ubuntu-k8s",
		"external_network_id":"public","flavor_id":"m1.small","master_flavor_id":"m1.small","labels":{"kube_tag":"v1.34.1"}}`, &made)
	s.template = made.UUID
	return err
}

// create has clients make clusters, each the next one when its last can be seen,
// and waits until all are made.
func (s *side) create(ctx context.Context, of project, clients, each int, sky func() time.Duration) (making, error) {
	var mu sync.Mutex
	var answered, visible []time.Duration
	var failed error
	one := func() error {
		sent := time.Now()
		var made struct{ UUID string }
		if _, err := s.call(of, http.MethodPost, "/v1/clusters", creation(s.template), &made); err != nil {
			return err
		}
		after := time.Since(sent)
		for {
			// Magnum answers 404, and for a moment 400: the cluster is there, and has no nodes yet.
			status, err := s.call(of, http.MethodGet, "/v1/clusters/"+made.UUID, "", nil)
			if status == http.StatusOK {
				break
			}
			if status == 0 || time.Since(sent) > time.Minute {
				return fmt.Errorf("cluster %s is not visible: %w", made.UUID, err)
			}
			time.Sleep(5 * time.Millisecond)
		}
		mu.Lock()
		defer mu.Unlock()
		answered, visible = append(answered, after), append(visible, time.Since(sent))
		return nil
	}
	server, others, store, cloud := s.server(), s.others(), s.store(), sky()
	began := time.Now()
	var running sync.WaitGroup
	for range clients {
		running.Go(func() {
			for range each {
				if err := one(); err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
					return
				}
			}
		})
	}
	running.Wait()
	if failed != nil {
		return making{}, failed
	}
	answering := s.server() - server
	for {
		n, err := s.inProgress()
		if err != nil {
			return making{}, err
		}
		if n == 0 {
			break
		}
		if ctx.Err() != nil || time.Since(began) > 3*time.Minute {
			return making{}, fmt.Errorf("%d clusters are not made: %w", n, context.Cause(ctx))
		}
		time.Sleep(100 * time.Millisecond)
	}
	n := time.Duration(clients * each)
	return making{
		answered: median(answered), visible: median(visible), all: time.Since(began), server: answering / n,
		whole: (s.server() - server + s.others() - others) / n, store: (s.store() - store) / n, sky: (sky() - cloud) / n,
	}, nil
}

// fillBoth gives both the same clusters and templates, and lets the disks rest.
func (b *bench) fillBoth(ctx context.Context, conn *pgx.Conn, theirs *peer, carafe, magnum *side) error {
	for name, clusters := range map[string]int{"p10": 10, "p1000": 1000} {
		id := theirs.Projects[name].ID
		if err := fill(ctx, conn, id, 10, clusters); err != nil {
			return err
		}
		if _, err := theirs.sql(magnumRows(id, 10, clusters)); err != nil {
			return err
		}
	}
	if err := settle(ctx, conn); err != nil {
		return err
	}
	p10 := theirs.Projects["p10"].ID
	if err := conn.QueryRow(ctx, "SELECT uuid::text FROM clusters WHERE project_id = $1 LIMIT 1", p10).Scan(&carafe.show); err != nil {
		return err
	}
	uuid, err := theirs.sql("ANALYZE TABLE cluster, nodegroup, cluster_template; SELECT uuid FROM cluster WHERE project_id = '" + p10 + "' LIMIT 1")
	if fields := strings.Fields(uuid); len(fields) > 0 {
		magnum.show = fields[len(fields)-1]
	}
	return err
}

// magnumRows are the rows that fill gives to Carafe, as Magnum keeps them.
func magnumRows(project string, templates, clusters int) string {
	return strings.NewReplacer("@project", "'"+project+"'", "@templates", strconv.Itoa(templates), "@clusters", strconv.Itoa(clusters)).Replace(`
INSERT INTO cluster_template (uuid, project_id, user_id, name, coe, image_id, flavor_id, master_flavor_id, external_network_id,
    network_driver, docker_volume_size, cluster_distro, labels, server_type, registry_enabled, tls_disabled, public, hidden,
    master_lb_enabled, floating_ip_enabled, created_at)
SELECT uuid(), @project, concat(@project, '-user'), concat('template-', seq), 'kubernetes', 'ubuntu-24.04', 'm1.small', 'm1.small', 'public',
    'calico', 20, 'ubuntu', '{"kube_tag": "v1.34.1", "boot_volume_size": "20", "auto_healing_enabled": "true"}', 'vm', 0, 0, 0, 0, 0, 1, now()
FROM seq_1_to_@templates;
INSERT INTO cluster (uuid, project_id, user_id, name, cluster_template_id, keypair, docker_volume_size, labels, master_flavor_id, flavor_id,
    stack_id, api_address, status, health_status, health_status_reason, create_timeout, coe_version, master_lb_enabled, floating_ip_enabled,
    created_at, updated_at)
SELECT uuid(), @project, concat(@project, '-user'), concat('cluster-', seq), (SELECT uuid FROM cluster_template WHERE project_id = @project LIMIT 1),
    'testkey', 20, '{"kube_tag": "v1.34.1", "boot_volume_size": "20", "auto_healing_enabled": "true"}', 'm1.small', 'm1.small',
    concat('cluster-', seq, '-abcdefghijkl'), 'https://172.24.4.3:6443', 'CREATE_COMPLETE', 'HEALTHY',
    '{"api": "ok", "cluster-0.Ready": "True", "cluster-1.Ready": "True"}', 60, 'v1.34.1', 0, 1, now() - INTERVAL seq SECOND, now()
FROM seq_1_to_@clusters;
INSERT INTO nodegroup (uuid, name, cluster_id, project_id, docker_volume_size, labels, flavor_id, image_id, node_addresses, node_count, role,
    min_node_count, is_default, stack_id, status, created_at)
SELECT uuid(), g.name, c.uuid, c.project_id, 20, c.labels, 'm1.small', 'ubuntu-24.04', '["10.0.0.5"]', 1, g.role, 0, 1, c.stack_id, 'CREATE_COMPLETE', now()
FROM cluster c, (SELECT 'default-master' name, 'master' role UNION SELECT 'default-worker', 'worker') g WHERE c.project_id = @project;
`)
}

// startPeer starts Magnum and the cloud. What it gives must be taken down, also
// when it fails.
func (b *bench) startPeer(ctx context.Context) (*peer, error) {
	p := &peer{state: filepath.Join(b.dir, "cloud")}
	if err := p.script(ctx, "up", p.state); err != nil {
		return p, err
	}
	for name, into := range map[string]any{"peer.json": p, "cloud.json": &p.cloud} {
		text, err := os.ReadFile(filepath.Join(p.state, name))
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			return p, fmt.Errorf("%s: %w", name, err)
		}
	}
	return p, nil
}

func (p *peer) down(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(p.state, "peer.json")); err != nil {
		return nil // nothing was started
	}
	return p.script(context.WithoutCancel(ctx), "down", p.state)
}

func (p *peer) script(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "python3", append([]string{peerScript}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) } // it stops what it has started
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}                   // ctrl-C comes through us, once
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", peerScript, args[0], err)
	}
	return nil
}

// sql runs statements in Magnum's database.
func (p *peer) sql(text string) (string, error) {
	cmd := exec.Command("mariadb", "--no-defaults", "-uroot", "--socket="+p.DatabaseSocket, "--batch", "--skip-column-names", "magnum")
	cmd.Stdin = strings.NewReader(text)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	answer, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("mariadb: %w: %s", err, complaint.String())
	}
	return string(answer), nil
}

// pid is that of one of the processes that peerScript has started.
func (p *peer) pid(name string) int {
	text, _ := os.ReadFile(filepath.Join(p.state, "run", name))
	pid, _ := strconv.Atoi(string(text))
	return pid
}

func (p *peer) cpu(names ...string) func() time.Duration {
	return func() (sum time.Duration) {
		for _, name := range names {
			sum += treeCPU(p.pid(name))
		}
		return sum
	}
}

func (p *peer) memory(name string) float64 { return treePSS(p.pid(name)) }

// treePSS is the memory of a process and of all that it has started, in MiB; what
// processes share is counted once.
func treePSS(pid int) float64 {
	var sum float64
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			kib, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			sum += kib / 1024
		}
	}
	for _, child := range children(pid) {
		sum += treePSS(child)
	}
	return sum
}

func mib(n float64) string { return fmt.Sprintf("%.0f MiB", n) }

// times is how many times more a is than b.
func times[T float64 | time.Duration](a, b T) string {
	if b <= 0 {
		return "–"
	}
	ratio := float64(a) / float64(b)
	if ratio < 10 {
		return fmt.Sprintf("%.1f", ratio)
	}
	return fmt.Sprintf("%.0f", ratio)
}

// peerReport is the run as Markdown.
func (b *bench) peerReport(facts []string, versions map[string]string, rows []pair, made []madePair, memory []figure) string {
	var w strings.Builder
	fmt.Fprintf(&w, "# Carafe beside Magnum, measured on %s\n\n", b.began.UTC().Format(time.DateOnly))
	fewest := slices.MinFunc(rows, func(a, b pair) int { return int(a.peer.perSecond*1000) - int(b.peer.perSecond*1000) })
	for _, fact := range append(facts,
		fmt.Sprintf("Magnum %s on Python %s under uWSGI %s with 2 workers, 1 conductor, MariaDB %s, RabbitMQ %s, tokens cached in memcached %s",
			versions["magnum"], versions["python"], versions["uwsgi"], versions["mariadb"], versions["rabbitmq"], versions["memcached"]),
		"one Keystone, Nova, Neutron and Glance for both; Carafe is one process with all functions, tokens cached in it",
		fmt.Sprintf("`make bench-peer`, %.0f minutes; each line with Carafe and then with Magnum; Magnum's slowest gave %.1f answers a second",
			time.Since(b.began).Minutes(), fewest.peer.perSecond)) {
		fmt.Fprintf(&w, "- %s\n", fact)
	}
	w.WriteString("\nIn each cell: Carafe, Magnum, and how many times better Carafe is.\n\n## Requests\n\n")
	w.WriteString("| request | clients | per second | p50 | p99 |\n|---|---:|---:|---:|---:|\n")
	for _, r := range rows {
		fmt.Fprintf(&w, "| %s | %d | %s, %.1f: **%s ×** | %s | %s |\n", r.carafe.name, r.carafe.clients, thousands(int(r.carafe.perSecond)), r.peer.perSecond,
			times(r.carafe.perSecond, r.peer.perSecond), better(r.carafe.p50, r.peer.p50), better(r.carafe.p99, r.peer.p99))
	}
	w.WriteString("\n## CPU for each request\n\n| request | clients | API | database | both |\n|---|---:|---:|---:|---:|\n")
	for _, r := range rows {
		fmt.Fprintf(&w, "| %s | %d | %s | %s | %s |\n", r.carafe.name, r.carafe.clients, better(r.carafe.carafe, r.peer.carafe),
			better(r.carafe.postgres, r.peer.postgres), better(r.carafe.carafe+r.carafe.postgres, r.peer.carafe+r.peer.postgres))
	}
	w.WriteString("\n## Creates\n\nFour RSA-2048 keys for each cluster with both; both drivers build nothing, and both are asked every 10 s how it goes.\n\n")
	w.WriteString("| measured |")
	for _, m := range made {
		fmt.Fprintf(&w, " %d × %d clusters |", m.clients, m.each)
	}
	w.WriteString("\n|---|" + strings.Repeat("---:|", len(made)) + "\n")
	for _, line := range []struct {
		name string
		of   func(making) time.Duration
	}{
		{"request → 202, p50", func(m making) time.Duration { return m.answered }},
		{"request → visible to a GET, p50", func(m making) time.Duration { return m.visible }},
		{"first request → last CREATE_COMPLETE", func(m making) time.Duration { return m.all }},
		{"CPU of each: Carafe; Magnum's API, conductor and RabbitMQ", func(m making) time.Duration { return m.whole }},
		{"CPU of each: PostgreSQL; MariaDB", func(m making) time.Duration { return m.store }},
		{"CPU of each: Keystone, Nova, Neutron and Glance", func(m making) time.Duration { return m.sky }},
	} {
		fmt.Fprintf(&w, "| %s |", line.name)
		for _, m := range made {
			fmt.Fprintf(&w, " %s |", better(line.of(m.carafe), line.of(m.peer)))
		}
		w.WriteString("\n")
	}
	for _, m := range made {
		fmt.Fprintf(&w, "\nMagnum's API alone, with %d clients: %s for each.\n", m.clients, ms(m.peer.server))
	}
	w.WriteString("\n## Memory\n\nThe database servers apart; what processes share is counted once.\n\n| what | holds |\n|---|---:|\n")
	for _, m := range memory {
		fmt.Fprintf(&w, "| %s | %s |\n", m.name, m.value)
	}
	return w.String()
}

// better is a cell for something of which less is better.
func better(carafe, magnum time.Duration) string {
	return fmt.Sprintf("%s, %s: **%s ×**", ms(carafe), ms(magnum), times(magnum, carafe))
}
