package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// work is one kind of request.
type work struct {
	name string
	next func(i int) request
}

// constant is the same request always.
func constant(r request) func(int) request { return func(int) request { return r } }

// row is one line of the table of requests: medians of several runs.
type row struct {
	name             string
	clients          int
	perSecond        float64
	p50, p99         time.Duration
	carafe, postgres time.Duration // CPU for each request, of the server and of its database
}

// load measures works against a process, at each number of clients.
func (b *bench) load(p *process, works []work) error {
	for _, w := range works {
		for _, clients := range b.clients {
			line, err := sample(p.address, w, clients, b.runs, b.length, p.cpu, b.postgresCPU)
			if err != nil {
				return err
			}
			b.rows = append(b.rows, line)
			b.say("%s", line)
		}
	}
	return nil
}

// sample measures one work at one number of clients, beside the CPU that the
// server and its database use.
func sample(address string, w work, clients, runs int, length time.Duration, server, database func() time.Duration) (row, error) {
	if _, err := press(address, clients, length/4, w.next); err != nil { // warms up
		return row{}, fmt.Errorf("%s: %w", w.name, err)
	}
	var perSecond []float64
	var p50, p99, ours, theirs []time.Duration
	for range runs {
		first, second := server(), database()
		r, err := press(address, clients, length, w.next)
		if err != nil {
			return row{}, fmt.Errorf("%s: %w", w.name, err)
		}
		perSecond = append(perSecond, r.perSecond())
		p50, p99 = append(p50, r.p50), append(p99, r.p99)
		ours = append(ours, (server()-first)/time.Duration(r.n))
		theirs = append(theirs, (database()-second)/time.Duration(r.n))
	}
	return row{w.name, clients, median(perSecond), median(p50), median(p99), median(ours), median(theirs)}, nil
}

func (r row) String() string {
	return fmt.Sprintf("%-24s %4d clients %9.0f/s  p50 %8s  p99 %8s  CPU %s + %s", r.name, r.clients, r.perSecond,
		ms(r.p50), ms(r.p99), ms(r.carafe), ms(r.postgres))
}

// requests measures what people and programs ask for.
func (b *bench) requests(ctx context.Context) error {
	address, conn, err := b.database(ctx, "requests")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	b.say("filling the database with %d clusters", b.many)
	for project, clusters := range map[string]int{"p10": 10, "p1000": 1000, "pmany": b.many} {
		if err := fill(ctx, conn, project, 10, clusters); err != nil {
			return err
		}
	}
	if err := crowd(ctx, conn); err != nil {
		return err
	}
	if err := settle(ctx, conn); err != nil {
		return err
	}
	if err := b.idle(ctx, address); err != nil {
		return err
	}
	metrics, err := free()
	if err != nil {
		return err
	}
	reads, err := b.reads(ctx, conn)
	if err != nil {
		return err
	}
	p, err := b.start(address, "/v1/clusters", nil)
	if err != nil {
		return err
	}
	defer func() { _ = p.stop() }()
	sign, err := signing(p)
	if err != nil {
		return err
	}
	if err := b.load(p, append(reads, sign)); err != nil {
		return err
	}
	now, peak := p.memory()
	b.memory = append(b.memory, figure{"the whole under that load, at most", fmt.Sprintf("%.0f MiB", peak)},
		figure{"the whole after it", fmt.Sprintf("%.0f MiB", now)})
	if err := b.limits(ctx, address); err != nil {
		return err
	}
	if err := p.stop(); err != nil {
		return err
	}
	if p, err = b.start(address, "/v1/clusters", []string{"CARAFE_METRICS_ADDRESS=" + metrics}); err != nil {
		return err
	}
	if err := b.allocations(p, metrics, append(reads, sign)); err != nil {
		return err
	}
	return p.stop()
}

// reads are the requests that change nothing.
func (b *bench) reads(ctx context.Context, conn *pgx.Conn) ([]work, error) {
	var one, middle string
	if err := conn.QueryRow(ctx, "SELECT uuid::text FROM clusters WHERE project_id = 'p10' LIMIT 1").Scan(&one); err != nil {
		return nil, err
	}
	err := conn.QueryRow(ctx, "SELECT uuid::text FROM clusters WHERE project_id = 'pmany' ORDER BY seq OFFSET $1 LIMIT 1", b.many/2).Scan(&middle)
	if err != nil {
		return nil, err
	}
	get := func(project, path string) func(int) request {
		return constant(request{method: http.MethodGet, path: path, project: project, want: http.StatusOK})
	}
	return []work{
		{"list of 10", get("p10", "/v1/clusters")},
		{"list 20 of 1,000", get("p1000", "/v1/clusters?limit=20")},
		{"list 20 of " + thousands(b.many), get("pmany", "/v1/clusters?limit=20")},
		{"list 20 from the middle", get("pmany", "/v1/clusters?limit=20&marker="+middle)},
		{"detail list of 10", get("p10", "/v1/clusters/detail")},
		{"show", get("p10", "/v1/clusters/"+one)},
		{"template list of 10", get("p10", "/v1/clustertemplates")},
	}, nil
}

// signing makes a cluster with certificates and asks for one after the other.
func signing(p *process) (work, error) {
	uuid, err := p.newCluster("psign")
	if err != nil {
		return work{}, err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return work{}, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}}, key)
	if err != nil {
		return work{}, err
	}
	csr := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	body, err := json.Marshal(map[string]string{"cluster_uuid": uuid, "csr": csr})
	if err != nil {
		return work{}, err
	}
	return work{"sign certificate", constant(request{method: http.MethodPost, path: "/v1/certificates", project: "psign", body: string(body), want: http.StatusCreated})}, nil
}

// newCluster makes a template and a cluster through the API, and waits until it is there.
func (p *process) newCluster(project string) (string, error) {
	c, err := dial(p.address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	made := struct{ UUID, Status string }{}
	do := func(method, path, body string, want int) error {
		var answer []byte
		err := c.ask(request{method: method, path: path, project: project, body: body}.wire(), want, &answer)
		if err != nil {
			return err
		}
		return json.Unmarshal(answer, &made)
	}
	if err := do(http.MethodPost, "/v1/clustertemplates", `{"name":"t","coe":"kubernetes","image_id":"ubuntu-24.04","external_network_id":"public"}`, http.StatusCreated); err != nil {
		return "", err
	}
	if err := do(http.MethodPost, "/v1/clusters", creation(made.UUID), http.StatusAccepted); err != nil {
		return "", err
	}
	uuid := made.UUID
	for range 600 {
		if err := do(http.MethodGet, "/v1/clusters/"+uuid, "", http.StatusOK); err != nil || made.Status == "CREATE_COMPLETE" {
			return uuid, err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return "", fmt.Errorf("cluster %s is still %s", uuid, made.Status)
}

func creation(template string) string {
	return fmt.Sprintf(`{"name":"bench","cluster_template_id":%q,"keypair":"testkey","node_count":1,"master_count":1}`, template)
}

// projects is how many projects writes are spread over: in each, quota is counted
// and creations wait for each other.
const projects = 1000

// writes measures the requests that record an operation, each at its function
// alone, as on Knative: what comes after the answer has its own figures.
func (b *bench) writes(ctx context.Context) error {
	address, conn, err := b.database(ctx, "writes")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	template, err := publicTemplate(ctx, conn)
	if err != nil {
		return err
	}
	if err := fill(ctx, conn, "resized", 1, 1000); err != nil {
		return err
	}
	if err := settle(ctx, conn); err != nil {
		return err
	}
	resized, err := column(ctx, conn, "SELECT uuid::text FROM clusters WHERE project_id = 'resized'")
	if err != nil {
		return err
	}
	create := func(i int) request {
		return request{method: http.MethodPost, path: "/v1/clusters", project: fmt.Sprint("p", i%projects), body: creation(template), want: http.StatusAccepted}
	}
	resize := func(i int) request {
		return request{method: http.MethodPost, path: "/v1/clusters/" + resized[i%len(resized)] + "/actions/resize", project: "resized",
			body: fmt.Sprintf(`{"node_count":%d}`, 2+i/len(resized)%3), want: http.StatusAccepted}
	}
	for _, w := range []struct {
		function string
		work     work
	}{{"clusters", work{"create", create}}, {"actions", work{"resize", resize}}} {
		p, err := b.start(address, "/v1", nil, w.function)
		if err != nil {
			return err
		}
		err = b.load(p, []work{w.work})
		if stopped := p.stop(); err == nil {
			err = stopped
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// publicTemplate is one that every project may use.
func publicTemplate(ctx context.Context, conn *pgx.Conn) (uuid string, err error) {
	if err := fill(ctx, conn, "operator", 1, 0); err != nil {
		return "", err
	}
	err = conn.QueryRow(ctx, "UPDATE cluster_templates SET public = true WHERE project_id = 'operator' RETURNING uuid::text").Scan(&uuid)
	return uuid, err
}

// allocations asks a process that shows its metrics how much it allocates for
// each request, the server and the metrics included.
func (b *bench) allocations(p *process, metrics string, works []work) error {
	for _, w := range works {
		const requests = 500
		c, err := dial(p.address)
		if err != nil {
			return err
		}
		var before map[string]float64
		for i := range 2 * requests {
			if i == requests { // the first half warms up
				if before, err = scrape(metrics); err != nil {
					return err
				}
			}
			r := w.next(i)
			if err := c.ask(r.wire(), r.want, nil); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
		c.Close()
		after, err := scrape(metrics)
		if err != nil {
			return err
		}
		bytes := (after["go_memstats_alloc_bytes_total"] - before["go_memstats_alloc_bytes_total"]) / requests
		objects := (after["go_memstats_mallocs_total"] - before["go_memstats_mallocs_total"]) / requests
		b.allocated = append(b.allocated, figure{w.name, fmt.Sprintf("%.1f KiB in %.0f objects", bytes/1024, objects)})
		b.say("%-24s allocates %s", w.name, b.allocated[len(b.allocated)-1].value)
	}
	return nil
}

// scrape reads the counters that have no labels.
func scrape(address string) (map[string]float64, error) {
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	values := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		var name string
		var value float64
		if n, _ := fmt.Sscanf(line, "%s %g", &name, &value); n == 2 {
			values[name] = value
		}
	}
	return values, nil
}
