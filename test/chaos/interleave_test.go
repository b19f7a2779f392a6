package chaos

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"carafe/functions"
	"carafe/functions/actions"
	"carafe/functions/certificates"
	"carafe/functions/clusters"
	"carafe/functions/credentials"
	"carafe/functions/nodegroups"
	"carafe/functions/relay"
	"carafe/functions/statussync"
	"carafe/shared/conductor"
	"carafe/shared/driver"
	"carafe/shared/events"
	"carafe/shared/fault"
	"carafe/shared/function"
	"carafe/shared/functiontest"
	"carafe/shared/magnum"
	"carafe/shared/pgtest"
	"carafe/shared/postgres"
)

// journal writes down every change of a status, a state or a version, so that
// also those are seen that did not last until the end of a step.
const journal = `
CREATE TABLE journal (seq bigserial, what text, id uuid, was text, now text, version_was bigint, version_now bigint);
CREATE FUNCTION journal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'clusters' THEN
        INSERT INTO journal (what, id, was, now, version_was, version_now) VALUES ('cluster', NEW.uuid, OLD.status, NEW.status, OLD.version, NEW.version);
    ELSIF TG_TABLE_NAME = 'nodegroups' THEN
        INSERT INTO journal (what, id, was, now, version_was, version_now) VALUES ('nodegroup', NEW.uuid, OLD.status, NEW.status, OLD.revision, NEW.revision);
    ELSE
        INSERT INTO journal (what, id, was, now, version_was, version_now) VALUES ('operation', NEW.id, OLD.state, NEW.state, OLD.fence, NEW.fence);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER journal AFTER UPDATE ON clusters FOR EACH ROW EXECUTE FUNCTION journal();
CREATE TRIGGER journal AFTER UPDATE ON nodegroups FOR EACH ROW EXECUTE FUNCTION journal();
CREATE TRIGGER journal AFTER UPDATE ON operations FOR EACH ROW EXECUTE FUNCTION journal();
`

// limit is the quota of the project that all requests are of.
const limit = 3

// TestInterleavings runs the real functions over a real database in an order
// that is drawn: requests, deliveries (twice, late, out of order, never), ticks
// (missed, doubled), time, and a driver that refuses, breaks down, takes the
// process with it, or is overtaken by any of these while it works. After each
// step the rules must hold; in the end, left alone, all must come to rest.
//
// CARAFE_CHAOS_SECONDS says for how long to look for a sequence that breaks one.
func TestInterleavings(t *testing.T) {
	url := pgtest.URL(t)
	store, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.Background()) }) // the database goes anyway
	if _, err := db.Exec(t.Context(), journal); err != nil {
		t.Fatal(err)
	}
	platform := functiontest.On(t, store)
	platform.Conductor.Settings.Retention = 0 // the rules are about all that ever was
	handlers := map[string]http.Handler{}
	for _, f := range functions.All {
		if f.Kind != function.HTTP {
			if handlers[f.Name], err = f.Build(t.Context(), platform.Platform); err != nil {
				t.Fatal(err)
			}
		}
	}
	// As many as there is time for; once one has failed it is made as small as it gets.
	if err := flag.Set("rapid.checks", "1000000"); err != nil {
		t.Fatal(err)
	}
	enough := time.Now().Add(seconds(15))
	sequences, steps, failed := 0, 0, false
	rapid.Check(t, func(rt *rapid.T) {
		if !failed && time.Now().After(enough) {
			return
		}
		passed := false
		defer func() { failed = failed || !passed }()
		w := newWorld(t, rt, platform, db, handlers)
		rt.Repeat(w.actions())
		w.comeToRest()
		sequences, steps, passed = sequences+1, steps+w.steps, true
	})
	t.Logf("interleavings: %d sequences, %d steps", sequences, steps)
	fmt.Printf("interleavings: %d sequences, %d steps\n", sequences, steps)
}

// seconds is how long a test of this package that could go on for ever does so.
func seconds(otherwise int) time.Duration {
	if text := os.Getenv("CARAFE_CHAOS_SECONDS"); text != "" {
		if d, err := time.ParseDuration(text + "s"); err == nil {
			return d
		}
	}
	if testing.Short() {
		otherwise /= 5
	}
	return time.Duration(otherwise) * time.Second
}

// world is one sequence: a database that was empty when it began.
type world struct {
	t        *testing.T
	rt       *rapid.T
	b        *functiontest.Bench
	db       *pgx.Conn
	handlers map[string]http.Handler
	steps    int
	names    int
	inbox    []command // sent, and not yet (or not yet for the last time) delivered
	seen     int64     // of the journal
	calm     bool      // the driver does what it is told, and nothing comes between
	depth    int       // of what comes between

	mu    sync.Mutex // observations are made side by side
	cloud map[string]*built
	look  map[string]string // what the next observation of a cluster finds
}

// built is what the driver has made of a cluster.
type built struct {
	nodes  map[string]int // by node group
	leaves bool
}

type command struct{ kind, operation, cluster string }

func newWorld(t *testing.T, rt *rapid.T, b *functiontest.Bench, db *pgx.Conn, handlers map[string]http.Handler) *world {
	w := &world{t: t, rt: rt, b: b, db: db, handlers: handlers, cloud: map[string]*built{}, look: map[string]string{}}
	w.exec(`TRUNCATE journal, cluster_templates, clusters, nodegroups, cluster_ticks, quotas, certificates, credentials, operations, events,
		dead_letters, idempotency_keys RESTART IDENTITY CASCADE`)
	for _, name := range []string{"small", "next"} {
		distro := "ubuntu"
		if _, err := b.DB.Templates.Create(t.Context(), magnum.ClusterTemplate{UUID: b.NewID(), ProjectID: "p1", UserID: "u1", Name: name,
			COE: "kubernetes", ImageID: "image", ServerType: "vm", ClusterDistro: &distro, CreatedAt: b.Clock}); err != nil {
			t.Fatal(err)
		}
	}
	w.exec(`INSERT INTO quotas (project_id, resource, hard_limit) VALUES ('p1', 'Cluster', $1)`, limit)
	b.Driver.OnApply = func(c driver.Cluster) error {
		return w.atDriver("apply", c.Operation.ID, func() { w.take(c) })
	}
	b.Driver.OnRotateCA = func(c driver.Cluster) error {
		return w.atDriver("rotate CA", c.Operation.ID, func() {})
	}
	b.Driver.OnRotateCredential = func(c driver.Cluster) error {
		return w.atDriver("rotate credential", c.Operation.ID, func() {})
	}
	b.Driver.OnDelete = func(ref driver.Ref) error {
		return w.atDriver("delete", ref.Operation.ID, func() {
			if k := w.cloud[ref.Cluster.UUID]; k != nil {
				k.leaves = true
			}
		})
	}
	b.Driver.OnObserve = w.observe
	return w
}

// take is what the driver does with a desired state.
func (w *world) take(c driver.Cluster) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := &built{nodes: map[string]int{}}
	for _, n := range c.NodeGroups {
		if n.Status != magnum.DeleteInProgress {
			k.nodes[n.UUID] = n.NodeCount
		}
	}
	w.cloud[c.Cluster.UUID] = k
}

// errCrash stands for the end of the process: nothing that would follow is done.
type errCrash struct{}

// atDriver is a call of the driver. It works, or not, or what it did is never
// told, or other things happen meanwhile.
func (w *world) atDriver(what, operation string, do func()) error {
	if w.calm {
		do()
		return nil
	}
	how := rapid.SampledFrom([]string{"works", "works", "works", "works", "is overtaken", "is overtaken", "breaks down", "breaks down afterwards",
		"refuses", "crashes", "crashes afterwards"}).Draw(w.rt, "driver at "+what)
	w.rt.Logf("  the driver %s (%s of %s)", how, what, operation)
	switch how {
	case "breaks down":
		return fault.New(fault.Unavailable, "The cloud is away.")
	case "breaks down afterwards":
		do()
		return fault.New(fault.Unavailable, "The cloud is away.")
	case "refuses":
		return fault.New(fault.Invalid, "The cloud does not want this.")
	case "crashes":
		panic(errCrash{})
	case "crashes afterwards":
		do()
		panic(errCrash{})
	case "is overtaken":
		began := w.b.Clock
		for range rapid.IntRange(1, 3).Draw(w.rt, "times") {
			w.between()
		}
		if w.b.Clock.Sub(began) >= w.b.Conductor.Settings.StepTimeout { // no step takes longer
			return fault.New(fault.Unavailable, "The cloud took too long.")
		}
	}
	do()
	return nil
}

// between lets something happen while the driver is at work.
func (w *world) between() {
	if w.depth == 2 {
		return
	}
	w.depth++
	defer func() { w.depth-- }()
	all := w.actions()
	names := []string{"resize", "resize", "patch", "delete", "deliver", "deliver", "time passes", "statussync", "relay", "nodegroup delete", "rotate credential"}
	all[rapid.SampledFrom(names).Draw(w.rt, "meanwhile")](w.rt)
}

// observe finds what look says.
func (w *world) observe(ref driver.Ref) (driver.Observation, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := ref.Cluster.UUID
	k := w.cloud[id]
	how := w.look[id]
	if w.calm {
		how = "done"
	}
	switch how {
	case "away":
		return driver.Observation{}, fault.New(fault.Unavailable, "The cloud is away.")
	case "broken":
		return driver.Observation{}, fault.New(fault.Invalid, "The cloud makes no sense.")
	case "failed":
		o := driver.Observation{Progress: driver.Failed, Reason: "The cloud has failed.", NodeGroups: map[string]driver.NodeGroupObservation{}}
		for _, n := range ref.NodeGroups {
			o.NodeGroups[n.UUID] = driver.NodeGroupObservation{Progress: driver.Failed, Reason: "The group has failed."}
		}
		return o, nil
	case "done":
	default:
		return driver.Observation{Reason: "Machines are being made."}, nil
	}
	if k == nil || k.leaves {
		delete(w.cloud, id)
		return driver.Observation{Progress: driver.Gone}, nil
	}
	o := driver.Observation{Progress: driver.Complete, APIAddress: "https://192.0.2.1:6443", StackID: id, NodeGroups: map[string]driver.NodeGroupObservation{}}
	for _, n := range ref.NodeGroups {
		if _, ok := k.nodes[n.UUID]; ok {
			o.NodeGroups[n.UUID] = driver.NodeGroupObservation{Progress: driver.Complete}
		} else if n.Status == magnum.DeleteInProgress {
			o.NodeGroups[n.UUID] = driver.NodeGroupObservation{Progress: driver.Gone}
		}
	}
	return o, nil
}

// actions are all that may happen, and what must be true after each ("").
func (w *world) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"create": func(*rapid.T) {
			w.names++
			w.request("clusters", "POST", "/v1/clusters", fmt.Sprintf(`{"name": "c%d", "cluster_template_id": "small", "node_count": %d, "create_timeout": %d}`,
				w.names, w.draw(1, 3), rapid.SampledFrom([]int{60, 2, 0}).Draw(w.rt, "timeout")))
		},
		"patch": func(*rapid.T) {
			w.onCluster("clusters", "PATCH", "", fmt.Sprintf(`[{"op": "replace", "path": "/node_count", "value": %d}]`, w.draw(0, 5)))
		},
		"resize": func(*rapid.T) {
			body := fmt.Sprintf(`{"node_count": %d}`, w.draw(0, 5))
			if group := rapid.SampledFrom([]string{"", "more"}).Draw(w.rt, "group"); group != "" {
				body = fmt.Sprintf(`{"node_count": %d, "nodegroup": %q}`, w.draw(0, 5), group)
			}
			w.onCluster("actions", "POST", "/actions/resize", body)
		},
		"upgrade": func(*rapid.T) {
			to := rapid.SampledFrom([]string{"next", "small"}).Draw(w.rt, "template")
			w.onCluster("actions", "POST", "/actions/upgrade", fmt.Sprintf(`{"cluster_template": %q}`, to))
		},
		"nodegroup create": func(*rapid.T) {
			w.onCluster("nodegroups", "POST", "/nodegroups", fmt.Sprintf(`{"name": "more", "node_count": %d}`, w.draw(0, 3)))
		},
		"nodegroup update": func(*rapid.T) {
			group := rapid.SampledFrom([]string{"default-worker", "more"}).Draw(w.rt, "group")
			w.onCluster("nodegroups", "PATCH", "/nodegroups/"+group, fmt.Sprintf(`[{"op": "replace", "path": "/max_node_count", "value": %d}]`, w.draw(5, 9)))
		},
		"nodegroup delete":  func(*rapid.T) { w.onCluster("nodegroups", "DELETE", "/nodegroups/more", "") },
		"rotate CA":         func(*rapid.T) { w.onCluster("certificates", "PATCH", "certificates", "") },
		"rotate credential": func(*rapid.T) { w.onCluster("credentials", "PATCH", "credentials", "") },
		"delete":            func(*rapid.T) { w.onCluster("clusters", "DELETE", "", "") },
		"deliver":           func(*rapid.T) { w.deliverSome() },
		"deliver more":      func(*rapid.T) { w.deliverSome() },
		"statussync": func(*rapid.T) {
			w.drawLooks()
			w.tick(statussync.Function().Name)
		},
		"statussync again": func(*rapid.T) {
			w.drawLooks()
			w.advance(w.b.Conductor.Settings.SyncInterval)
			w.tick(statussync.Function().Name)
		},
		"relay": func(*rapid.T) {
			w.tick(relay.Function().Name)
			w.nothingOverdue()
		},
		"time passes": func(*rapid.T) {
			w.advance(rapid.SampledFrom([]time.Duration{time.Second, 15 * time.Second, 65 * time.Second, 10 * time.Minute, 70 * time.Minute}).Draw(w.rt, "time"))
		},
		"": func(*rapid.T) { w.check() },
	}
}

func (w *world) draw(from, to int) int { return rapid.IntRange(from, to).Draw(w.rt, "count") }

func (w *world) advance(d time.Duration) { w.b.Clock = w.b.Clock.Add(d) }

// onCluster asks for something about a cluster that there is, if there is one.
func (w *world) onCluster(f, method, path, body string) {
	ids := w.clusters()
	if len(ids) == 0 {
		return
	}
	id := rapid.SampledFrom(ids).Draw(w.rt, "cluster")
	if f == path { // certificates, credentials
		w.request(f, method, "/v1/"+path+"/"+id, body)
		return
	}
	w.request(f, method, "/v1/clusters/"+id+path, body)
}

var httpFunctions = map[string]function.Function{"clusters": clusters.Function(), "actions": actions.Function(), "nodegroups": nodegroups.Function(),
	"certificates": certificates.Function(), "credentials": credentials.Function()}

// request must be done or be refused for a reason; nothing else is an answer.
func (w *world) request(f, method, path, body string) {
	a := w.b.Call(w.t, httpFunctions[f], functiontest.Request{Method: method, Path: path, Body: body})
	w.rt.Logf("  %s %s %s: %d %s", method, path, body, a.Status, a.Text)
	if a.Status >= 500 {
		w.rt.Fatalf("%s %s %s: %d %s", method, path, body, a.Status, a.Text)
	}
	w.collect()
}

// collect is the broker: it takes what is in the outbox and due.
func (w *world) collect() {
	rows, err := w.db.Query(w.t.Context(), `UPDATE events SET published_at = $1 WHERE published_at IS NULL AND due_at <= $1
		RETURNING type, coalesce(operation_id::text, ''), subject, outcome IS NULL`, w.b.Clock)
	if err != nil {
		w.t.Fatal(err)
	}
	for rows.Next() {
		var c command
		var internal bool
		if err := rows.Scan(&c.kind, &c.operation, &c.cluster, &internal); err != nil {
			w.t.Fatal(err)
		}
		if internal {
			w.inbox = append(w.inbox, c)
		}
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
}

// deliverSome delivers any of the commands, once or not for the last time, or loses it.
func (w *world) deliverSome() {
	w.collect()
	if len(w.inbox) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.inbox)-1).Draw(w.rt, "command")
	c := w.inbox[i]
	switch rapid.SampledFrom([]string{"once", "once", "once", "again", "never"}).Draw(w.rt, "delivered") {
	case "once":
		w.inbox = slices.Delete(w.inbox, i, i+1)
	case "never":
		w.inbox = slices.Delete(w.inbox, i, i+1)
		return
	}
	w.deliver(c)
}

func (w *world) deliver(c command) {
	name := strings.ReplaceAll(strings.TrimPrefix(c.kind, "magnum.conductor."), ".", "")
	handler := w.handlers[name]
	if handler == nil {
		w.rt.Fatalf("no function takes %s", c.kind)
	}
	status := w.send(handler, c.kind, c.cluster, conductor.Command{OperationID: c.operation, ClusterID: c.cluster})
	w.rt.Logf("  %s of %s delivered: %d", c.kind, c.operation, status)
	w.collect()
}

func (w *world) tick(name string) {
	status := w.send(w.handlers[name], events.Tick, "", struct{}{})
	if status != http.StatusNoContent {
		w.rt.Fatalf("tick of %s: %d", name, status)
	}
	w.rt.Logf("  tick of %s at %s", name, w.b.Clock.Format(time.TimeOnly))
	w.collect()
}

func (w *world) send(h http.Handler, kind, subject string, data any) int {
	e := event.New()
	e.SetID(w.b.NewID())
	e.SetType(kind)
	e.SetSource(w.b.Conductor.Source())
	e.SetSubject(subject)
	if err := e.SetData(event.ApplicationJSON, data); err != nil {
		w.t.Fatal(err)
	}
	text, err := json.Marshal(e)
	if err != nil {
		w.t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(w.t.Context(), http.MethodPost, "/", strings.NewReader(string(text)))
	r.Header.Set("Content-Type", event.ApplicationCloudEventsJSON)
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, r)
	return answer.Code
}

// drawLooks says what the next observation of each cluster finds.
func (w *world) drawLooks() {
	for _, id := range w.clusters() {
		w.look[id] = rapid.SampledFrom([]string{"done", "done", "done", "working", "failed", "away", "broken"}).Draw(w.rt, "look")
	}
}

func (w *world) exec(sql string, args ...any) {
	if _, err := w.db.Exec(w.t.Context(), sql, args...); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
}

// lines gives a column of text.
func (w *world) lines(sql string, args ...any) []string {
	rows, err := w.db.Query(w.t.Context(), sql, args...)
	if err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return list
}

func (w *world) clusters() []string { return w.lines(`SELECT uuid::text FROM clusters ORDER BY seq`) }

// none holds if the statement finds nothing.
func (w *world) none(what, sql string, args ...any) {
	if found := w.lines(sql, args...); len(found) > 0 {
		w.rt.Fatalf("%s: %s", what, strings.Join(found, "; "))
	}
}

// check is what must be true after every step.
func (w *world) check() {
	w.steps++
	rows, err := w.db.Query(w.t.Context(), `SELECT seq, what, id::text, was, now, version_was, version_now FROM journal WHERE seq > $1 ORDER BY seq`, w.seen)
	if err != nil {
		w.t.Fatal(err)
	}
	var wrong []string
	for rows.Next() {
		var what, id, was, now string
		var before, after int64
		if err := rows.Scan(&w.seen, &what, &id, &was, &now, &before, &after); err != nil {
			w.t.Fatal(err)
		}
		if was != now && !slices.Contains(graph[what][was], now) {
			wrong = append(wrong, fmt.Sprintf("%s %s went from %s to %s", what, id, was, now))
		}
		if after < before {
			wrong = append(wrong, fmt.Sprintf("the version of %s %s went from %d to %d", what, id, before, after))
		}
	}
	if len(wrong) > 0 {
		w.rt.Fatal(strings.Join(wrong, "; "))
	}
	w.none("notifications", `SELECT o.kind || ' ' || o.id || ' ' || o.state || ': ' || count(*) FILTER (WHERE e.outcome = 'pending') || ' pending, ' ||
			count(*) FILTER (WHERE e.outcome <> 'pending') || ' final'
		FROM operations o LEFT JOIN events e ON e.operation_id = o.id AND e.outcome IS NOT NULL GROUP BY o.seq, o.kind, o.id, o.state, o.finished_at
		HAVING count(*) FILTER (WHERE e.outcome = 'pending') <> 1 OR count(*) FILTER (WHERE e.outcome <> 'pending') <> (o.finished_at IS NOT NULL)::int`)
	w.none("more clusters than the quota", `SELECT count(*)::text FROM clusters HAVING count(*) > $1`, limit)
}

// graph is where a status or a state may go.
var graph = map[string]map[string][]string{
	"cluster": {
		"CREATE_IN_PROGRESS": {"CREATE_COMPLETE", "CREATE_FAILED", "DELETE_IN_PROGRESS"},
		"CREATE_COMPLETE":    {"UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS"},
		"CREATE_FAILED":      {"DELETE_IN_PROGRESS"},
		"UPDATE_IN_PROGRESS": {"UPDATE_COMPLETE", "UPDATE_FAILED", "DELETE_IN_PROGRESS"},
		"UPDATE_COMPLETE":    {"UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS"},
		"UPDATE_FAILED":      {"UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS"},
		"DELETE_IN_PROGRESS": {"DELETE_FAILED"}, // or it is gone
		"DELETE_FAILED":      {"DELETE_IN_PROGRESS"},
	},
	"nodegroup": {
		"CREATE_IN_PROGRESS": {"CREATE_COMPLETE", "CREATE_FAILED", "UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS"},
		"CREATE_COMPLETE":    {"UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS"},
		"CREATE_FAILED":      {"UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS"},
		"UPDATE_IN_PROGRESS": {"UPDATE_COMPLETE", "UPDATE_FAILED", "DELETE_IN_PROGRESS"},
		"UPDATE_COMPLETE":    {"UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS"},
		"UPDATE_FAILED":      {"UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS"},
		"DELETE_IN_PROGRESS": {"DELETE_FAILED", "DELETE_COMPLETE"}, // complete for the notification, in the transaction that removes it
		"DELETE_FAILED":      {"UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS"},
	},
	"operation": {
		"pending": {"running", "failed", "superseded"},
		"running": {"pending", "waiting", "succeeded", "failed", "superseded"},
		"waiting": {"pending", "succeeded", "failed", "superseded"},
	},
}

// nothingOverdue is what a tick of the relay leaves.
func (w *world) nothingOverdue() {
	w.none("past their deadline", `SELECT kind || ' ' || state FROM operations
		WHERE finished_at IS NULL AND deadline_at <= $1 AND NOT (state = 'running' AND lease_until >= $1)`, w.b.Clock)
}

// comeToRest leaves the system alone with a driver that works, and looks at
// what has become of everything.
func (w *world) comeToRest() {
	w.calm = true
	for range 40 {
		w.collect()
		for _, c := range w.inbox {
			w.deliver(c)
		}
		w.inbox = nil
		w.collect()
		if len(w.inbox) == 0 && len(w.lines(`SELECT id::text FROM operations WHERE finished_at IS NULL`)) == 0 {
			break
		}
		w.advance(20 * time.Second)
		w.tick(statussync.Function().Name)
		w.tick(relay.Function().Name)
		w.nothingOverdue()
	}
	w.check()
	w.none("never ended", `SELECT kind || ' ' || id || ' ' || state FROM operations WHERE finished_at IS NULL`)
	w.none("in progress for ever", `SELECT uuid::text || ' ' || status FROM clusters WHERE status LIKE '%IN_PROGRESS'
		UNION ALL SELECT uuid::text || ' ' || status FROM nodegroups WHERE status LIKE '%IN_PROGRESS'`)
	w.none("node counts that nobody wished", `WITH last AS (
			SELECT DISTINCT ON (nodegroup_id) * FROM operations WHERE kind IN ('cluster.resize', 'cluster.update') ORDER BY nodegroup_id, seq DESC)
		SELECT n.name || ' has ' || n.node_count || ' after ' || o.state || ' ' || o.arguments FROM nodegroups n JOIN last o ON o.nodegroup_id = n.uuid
		WHERE o.state <> 'superseded' AND n.node_count <> (CASE WHEN o.state = 'succeeded' OR 'apply' = ANY (o.steps) THEN o.arguments ->> 'node_count'
			ELSE o.arguments ->> 'previous_node_count' END)::int`)
	w.none("observed without need", `SELECT cluster_id::text FROM cluster_ticks WHERE sync_due_at IS NOT NULL`)
	w.built()
}

// built compares the rows with what the driver has made, for clusters in whose
// life nothing failed.
func (w *world) built() {
	well := w.lines(`SELECT c.uuid::text FROM clusters c WHERE NOT EXISTS (SELECT 1 FROM operations o WHERE o.cluster_id = c.uuid AND o.state = 'failed')`)
	for _, id := range well {
		k := w.cloud[id]
		if k == nil {
			w.rt.Fatalf("the driver knows nothing of cluster %s", id)
		}
		for _, n := range w.lines(`SELECT uuid::text || ' ' || node_count FROM nodegroups WHERE cluster_id = $1`, id) {
			uuid, count, _ := strings.Cut(n, " ")
			if fmt.Sprint(k.nodes[uuid]) != count {
				w.rt.Fatalf("group %s of cluster %s has %d nodes, not %s", uuid, id, k.nodes[uuid], count)
			}
		}
	}
	for id := range w.cloud {
		if !slices.Contains(w.clusters(), id) {
			w.rt.Fatalf("cluster %s is gone here and not at the driver", id)
		}
	}
}
