// Package chaos ends Carafe, or cuts what it depends on, at every boundary
// between two writes of every operation, and looks at what has become of the
// operation afterwards.
//
// The boundaries are not listed anywhere: triggers in the test's database hold
// up the n-th write to the tables that operations, drivers and secrets are kept
// in. An undisturbed run counts them, then each is hit by itself. A step that is
// added to an operation writes, and so is covered.
package chaos

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"carafe/shared/pgtest"
	"carafe/test/instance"
)

func TestMain(m *testing.M) { instance.Main(m) }

// points hold up the write whose number is in chaos_target: until the test lets
// go of the advisory lock (mode wait), or with an error (mode fail). Numbers
// count the writes of the process under test; the sequence knows no rollback.
const points = `
CREATE SEQUENCE chaos_writes;
CREATE TABLE chaos_target (n bigint NOT NULL, mode text NOT NULL);
INSERT INTO chaos_target VALUES (0, 'count');
CREATE FUNCTION chaos() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE target chaos_target;
BEGIN
    SELECT * INTO target FROM chaos_target;
    IF target.mode = 'off' THEN RETURN NULL; END IF;
    IF nextval('chaos_writes') = target.n THEN
        IF target.mode = 'fail' THEN RAISE EXCEPTION 'injected'; END IF;
        PERFORM pg_advisory_xact_lock(4242);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER chaos BEFORE INSERT OR UPDATE ON operations FOR EACH STATEMENT EXECUTE FUNCTION chaos();
CREATE TRIGGER chaos BEFORE INSERT OR UPDATE ON simulated_clusters FOR EACH STATEMENT EXECUTE FUNCTION chaos();
CREATE TRIGGER chaos BEFORE INSERT OR UPDATE OR DELETE ON certificates FOR EACH STATEMENT EXECUTE FUNCTION chaos();
CREATE TRIGGER chaos BEFORE DELETE ON clusters FOR EACH STATEMENT EXECUTE FUNCTION chaos();
CREATE TRIGGER chaos BEFORE DELETE ON nodegroups FOR EACH STATEMENT EXECUTE FUNCTION chaos();
`

// harms are what is done at a point.
var harms = []string{
	"kill",  // SIGKILL, then the process is started again
	"cut",   // the connection that writes is cut
	"fail",  // the database refuses the write
	"stall", // the write takes longer than a step may
}

// operation is one line of the matrix.
type operation struct {
	name   string
	method string
	path   string // behind /v1/clusters/<name>
	body   string
	// end is the cluster's status when all is well; empty: it is gone.
	end string
	// first is done, and awaited, before.
	first func(b *bench, cluster string)
	// check looks at what the operation was for.
	check func(b *bench, cluster string) error
}

var operations = []operation{
	{name: "create", end: "CREATE_COMPLETE", check: func(b *bench, k string) error { return b.nodes(k, 2, 1) }},
	{name: "update", method: "PATCH", body: `[{"op": "replace", "path": "/node_count", "value": 3}]`, end: "UPDATE_COMPLETE",
		check: func(b *bench, k string) error { return b.nodes(k, 3, 1) }},
	{name: "resize", method: "POST", path: "/actions/resize", body: `{"node_count": 4}`, end: "UPDATE_COMPLETE",
		check: func(b *bench, k string) error { return b.nodes(k, 4, 1) }},
	{name: "upgrade", method: "POST", path: "/actions/upgrade", body: `{"cluster_template": "next", "max_batch_size": 1}`, end: "UPDATE_COMPLETE",
		check: func(b *bench, k string) error { return b.equal(k, "coe_version", "v1.35.0") }},
	{name: "nodegroup create", method: "POST", path: "/nodegroups", body: `{"name": "more", "node_count": 1}`, end: "UPDATE_COMPLETE",
		check: func(b *bench, k string) error { return b.nodes(k, 3, 1) }},
	{name: "nodegroup update", method: "PATCH", path: "/nodegroups/default-worker", body: `[{"op": "replace", "path": "/max_node_count", "value": 9}]`, end: "UPDATE_COMPLETE"},
	{name: "nodegroup delete", method: "DELETE", path: "/nodegroups/more", end: "UPDATE_COMPLETE",
		first: func(b *bench, k string) {
			b.must("POST", "/v1/clusters/"+k+"/nodegroups", `{"name": "more", "node_count": 1}`)
			b.await(k, "UPDATE_COMPLETE")
		},
		check: func(b *bench, k string) error { return b.nodes(k, 2, 1) }},
	{name: "ca rotate", method: "PATCH", path: "certificates", end: "UPDATE_COMPLETE"},
	{name: "credential rotate", method: "PATCH", path: "credentials", end: "CREATE_COMPLETE"},
	{name: "delete", method: "DELETE"},
}

// hit counts what the run covered, and is printed.
var hit atomic.Int64

// TestCrashMatrix covers every write of every operation with every harm. Each
// operation has a Carafe and a database of its own.
func TestCrashMatrix(t *testing.T) {
	t.Cleanup(func() {
		t.Logf("crash matrix: %d points covered", hit.Load())
		fmt.Printf("crash matrix: %d points covered\n", hit.Load())
	})
	slots := make(chan struct{}, 4) // each is a process and its database
	for _, op := range operations {
		t.Run(op.name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			matrix(t, op)
		})
	}
}

func matrix(t *testing.T, op operation) {
	b := newBench(t)
	b.template("small", "v1.34.1")
	b.template("next", "v1.35.0")
	writes := b.run(op, "count", 0)
	if writes == 0 {
		t.Fatalf("%s wrote nothing: the triggers are in the wrong place", op.name)
	}
	some := harms
	if testing.Short() {
		some = harms[:1]
	}
	for _, harm := range some {
		for n := int64(1); n <= writes; n++ {
			if harm == "stall" && n%3 != 0 { // each takes a step's whole time
				continue
			}
			b.run(op, harm, n)
			hit.Add(1)
			if t.Failed() {
				t.Fatalf("%s at write %d of %s", harm, n, op.name)
			}
		}
	}
	t.Logf("%s: %d writes", op.name, writes)
}

// bench is one Carafe under test.
type bench struct {
	t      *testing.T
	carafe *instance.Instance
	db     *pgx.Conn
	count  int
}

func newBench(t *testing.T) *bench {
	t.Helper()
	url := pgtest.URL(t)
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.Background()) }) // the database goes anyway
	b := &bench{t: t, db: db}
	b.exec(points)
	b.carafe = instance.Start(t, instance.Config{DatabaseURL: url, Env: map[string]string{
		"CARAFE_AUTH_STRATEGY": "noauth", "CARAFE_TICK_EVERY": "100ms", "CARAFE_SYNC_INTERVAL": "100ms", "CARAFE_HEALTH_INTERVAL": "0",
		"CARAFE_LEASE": "1500ms", "CARAFE_EVENT_LEASE": "1s", "CARAFE_STEP_TIMEOUT": "1s", "CARAFE_X509_KEY_ALGORITHM": "ecdsa", "CARAFE_LOG_LEVEL": "warn",
		"CARAFE_MAX_CLUSTERS_PER_PROJECT": "100000", "CARAFE_CERTIFICATES_RETIRE_AFTER": "0s",
	}})
	return b
}

func (b *bench) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.db.Exec(b.t.Context(), sql, args...); err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
}

func (b *bench) one(into any, sql string, args ...any) {
	b.t.Helper()
	if err := b.db.QueryRow(b.t.Context(), sql, args...).Scan(into); err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
}

// run does the operation once, with the harm at its n-th write, waits until the
// system, left alone, has come to rest, and checks everything. It gives the
// number of writes that there were.
func (b *bench) run(op operation, harm string, n int64) int64 {
	b.t.Helper()
	b.count++
	cluster := fmt.Sprintf("c%d", b.count)
	b.exec(`UPDATE chaos_target SET n = 0, mode = 'off'`)
	create := fmt.Sprintf(`{"name": %q, "cluster_template_id": "small", "node_count": 2}`, cluster)
	method, path, body := op.method, "/v1/clusters/"+cluster+op.path, op.body
	switch {
	case op.name == "create":
		method, path, body = "POST", "/v1/clusters", create
	case strings.HasPrefix(op.path, "c"): // certificates, credentials
		path = "/v1/" + op.path + "/" + cluster
	}
	if op.name != "create" {
		b.must("POST", "/v1/clusters", create)
		b.await(cluster, "CREATE_COMPLETE")
		if op.first != nil {
			op.first(b, cluster)
		}
	}
	uuid := ""
	if op.name != "create" {
		b.one(&uuid, `SELECT uuid::text FROM clusters WHERE name = $1`, cluster)
	}
	b.exec(`SELECT setval('chaos_writes', 1, false)`)
	mode := map[string]string{"count": "count", "fail": "fail"}[harm]
	if mode == "" {
		mode = "wait"
		b.exec(`SELECT pg_advisory_lock(4242)`)
	}
	b.exec(`UPDATE chaos_target SET n = $1, mode = $2`, n, mode)

	var status int
	var wait sync.WaitGroup
	wait.Go(func() { status = b.send(method, path, body, nil) })
	b.harm(harm)
	wait.Wait()
	if harm == "kill" {
		b.carafe.Run()
	}
	if status == 0 || status >= 500 { // it was hit before the answer: done whole, or not at all
		again := b.send(method, path, body, nil)
		if again >= 500 {
			b.t.Errorf("%s %s answers %d after %s at write %d", method, path, again, harm, n)
		}
	}
	b.rest(cluster, op)
	var writes int64
	b.one(&writes, `SELECT last_value FROM chaos_writes`)
	b.exec(`UPDATE chaos_target SET n = 0, mode = 'off'`)
	b.check(cluster, uuid, op)
	return writes
}

// harm waits until the write is held up and does what is to be done.
func (b *bench) harm(harm string) {
	b.t.Helper()
	if harm == "count" || harm == "fail" {
		return
	}
	pid := 0
	for end := time.Now().Add(5 * time.Second); pid == 0 && time.Now().Before(end); {
		b.one(&pid, `SELECT coalesce(max(pid), 0) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4242 AND NOT granted`)
	}
	if pid != 0 { // 0: this run wrote less often than the one that counted
		switch harm {
		case "kill":
			b.carafe.End(syscall.SIGKILL)
		case "cut":
			b.exec(`SELECT pg_terminate_backend($1)`, pid)
		case "stall":
			time.Sleep(1300 * time.Millisecond) // a step may take one second
		}
	} else if harm == "kill" {
		b.carafe.End(syscall.SIGKILL)
	}
	b.exec(`SELECT pg_advisory_unlock(4242)`)
}

// rest waits until no operation of the cluster is open and no event is in the outbox.
func (b *bench) rest(cluster string, op operation) {
	b.t.Helper()
	open := -1
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		b.one(&open, `SELECT (SELECT count(*) FROM operations WHERE finished_at IS NULL) + (SELECT count(*) FROM events WHERE published_at IS NULL)`)
		if open == 0 {
			return
		}
	}
	b.t.Errorf("%s of %s: %d operations and events have come to no end", op.name, cluster, open)
}

// check compares what there is with what must be.
func (b *bench) check(cluster, uuid string, op operation) {
	b.t.Helper()
	var left int
	if op.end == "" {
		if status := b.send("GET", "/v1/clusters/"+cluster, "", nil); status != http.StatusNotFound {
			b.t.Errorf("the deleted cluster answers %d", status)
		}
		for _, table := range []string{"certificates", "credentials", "nodegroups", "simulated_clusters"} {
			b.one(&left, `SELECT count(*) FROM `+table+` WHERE cluster_id = $1`, uuid)
			if left > 0 {
				b.t.Errorf("%d rows of %s are left", left, table)
			}
		}
	} else {
		if err := b.equal(cluster, "status", op.end); err != nil {
			b.t.Error(err)
		}
		b.one(&left, `SELECT count(*) FROM nodegroups n JOIN clusters c ON c.uuid = n.cluster_id WHERE c.name = $1 AND n.status LIKE '%IN_PROGRESS'`, cluster)
		if left > 0 {
			b.t.Errorf("%d node groups are still in progress", left)
		}
		b.one(&left, `SELECT count(*) FROM certificates s JOIN clusters c ON c.uuid = s.cluster_id WHERE c.name = $1 AND s.state = 'active'`, cluster)
		if left != 4 {
			b.t.Errorf("%d certificates in force, not 4", left)
		}
	}
	if op.check != nil {
		if err := op.check(b, cluster); err != nil {
			b.t.Error(err)
		}
	}
	var wrong string
	b.one(&wrong, `SELECT coalesce(string_agg(o.kind || ' ' || o.state || ': ' || coalesce(e.pending, 0) || ' pending, ' || coalesce(e.final, 0) || ' final', '; '), '')
		FROM operations o LEFT JOIN LATERAL (
			SELECT count(*) FILTER (WHERE outcome = 'pending') AS pending, count(*) FILTER (WHERE outcome <> 'pending') AS final
			FROM events WHERE operation_id = o.id AND outcome IS NOT NULL) e ON true
		WHERE e.pending <> 1 OR e.final <> 1`)
	if wrong != "" {
		b.t.Errorf("notifications: %s", wrong)
	}
}

func (b *bench) template(name, version string) {
	b.must("POST", "/v1/clustertemplates", fmt.Sprintf(`{"name": %q, "coe": "kubernetes", "image_id": "ubuntu", "flavor_id": "m",
		"master_flavor_id": "m", "external_network_id": "public", "labels": {"kube_tag": %q}}`, name, version))
}

// send gives the status, 0 if no answer came.
func (b *bench) send(method, path, body string, into any) int {
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.carafe.URL+path, strings.NewReader(body))
	if err != nil {
		b.t.Error(err)
		return 0
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("OpenStack-API-Version", "container-infra latest")
	if method == "POST" && path == "/v1/clusters" { // asked for again, it is still one cluster
		req.Header.Set("Idempotency-Key", fmt.Sprintf("%x", sha256.Sum256([]byte(body))))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0
	}
	if into != nil && json.Unmarshal(answer, into) != nil {
		b.t.Errorf("%s %s: no JSON: %.200s", method, path, answer)
	}
	if resp.StatusCode >= 400 && os.Getenv("CARAFE_CHAOS_VERBOSE") != "" {
		b.t.Logf("%s %s: %d %s", method, path, resp.StatusCode, answer)
	}
	return resp.StatusCode
}

func (b *bench) must(method, path, body string) {
	b.t.Helper()
	var answer any
	if status := b.send(method, path, body, &answer); status == 0 || status >= 300 {
		b.t.Fatalf("%s %s: %d %v", method, path, status, answer)
	}
}

func (b *bench) show(cluster string) map[string]any {
	b.t.Helper()
	var k map[string]any
	b.send("GET", "/v1/clusters/"+cluster, "", &k)
	return k
}

func (b *bench) await(cluster, status string) {
	b.t.Helper()
	var k map[string]any
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if k = b.show(cluster); k["status"] == status {
			return
		}
	}
	b.t.Fatalf("%s is not %s but %v (%v)", cluster, status, k["status"], k["status_reason"])
}

func (b *bench) equal(cluster, attribute, want string) error {
	if k := b.show(cluster); k[attribute] != want {
		return fmt.Errorf("%s of %s is %v, not %s (%v)", attribute, cluster, k[attribute], want, k["status_reason"])
	}
	return nil
}

func (b *bench) nodes(cluster string, nodes, masters int) error {
	k := b.show(cluster)
	addresses, _ := k["node_addresses"].([]any)
	if k["node_count"] != float64(nodes) || k["master_count"] != float64(masters) || len(addresses) != nodes {
		return fmt.Errorf("%s has %v nodes at %v and %v masters, not %d and %d", cluster, k["node_count"], addresses, k["master_count"], nodes, masters)
	}
	return nil
}
