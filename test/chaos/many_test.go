package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"carafe/shared/certstore"
	"carafe/shared/pgtest"
	"carafe/test/instance"
)

// begun writes down what the simulated driver begins.
const begun = `
CREATE TABLE begun (n bigint GENERATED ALWAYS AS IDENTITY, operation_id uuid, operation text, cluster_id uuid, version bigint);
CREATE FUNCTION begun() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' OR NEW.operation_id IS DISTINCT FROM OLD.operation_id THEN
        INSERT INTO begun (operation_id, operation, cluster_id, version) VALUES (NEW.operation_id, NEW.operation, NEW.cluster_id, NEW.version);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER begun AFTER INSERT OR UPDATE ON simulated_clusters FOR EACH ROW EXECUTE FUNCTION begun();
`

const (
	processes = 3
	clients   = 32
)

// TestThreeProcesses lets three Carafes, each with all functions, a broker and a
// clock, work on one database for many clients, and kills them at random. What
// was accepted is done in the end, and nothing twice.
//
// CARAFE_CHAOS_SECONDS says for how long.
func TestThreeProcesses(t *testing.T) {
	url := pgtest.URL(t)
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.Background()) }) // the database goes anyway
	if _, err := db.Exec(t.Context(), begun); err != nil {
		t.Fatal(err)
	}
	key := string(certstore.NewKey())
	crowd := &crowd{t: t, accepted: map[string]request{}}
	for range processes {
		crowd.carafes = append(crowd.carafes, instance.Start(t, instance.Config{DatabaseURL: url, Env: map[string]string{
			"CARAFE_SEAL_KEYS": key, "CARAFE_AUTH_STRATEGY": "noauth", "CARAFE_TICK_EVERY": "250ms", "CARAFE_SYNC_INTERVAL": "250ms",
			"CARAFE_HEALTH_INTERVAL": "0", "CARAFE_LEASE": "3s", "CARAFE_EVENT_LEASE": "3s", "CARAFE_STEP_TIMEOUT": "2s",
			"CARAFE_X509_KEY_ALGORITHM": "ecdsa", "CARAFE_LOG_LEVEL": "error", "CARAFE_MAX_CLUSTERS_PER_PROJECT": "100000",
		}}))
	}
	b := &bench{t: t, db: db, carafe: crowd.carafes[0]}
	b.template("small", "v1.34.1")

	last := seconds(30)
	ctx, stop := context.WithTimeout(t.Context(), last)
	defer stop()
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() { crowd.client(ctx, n) })
	}
	harms := crowd.harm(last*9/10, db)
	// One stays silent with all that it holds, as a machine does that has lost its
	// network: the others come to an end without it.
	silent := crowd.carafes[0]
	silent.Send(syscall.SIGSTOP)
	all.Wait()
	crowd.rest(b, "while one is silent")
	silent.Send(syscall.SIGCONT)
	crowd.rest(b, "in the end")
	crowd.check(b)

	// What was begun, and killed before that was written down, is begun anew if another
	// came between: with the state that should be by then, so it does no harm.
	var operations, started, again, clusters int
	b.one(&again, `SELECT count(*) - count(DISTINCT operation_id) FROM begun`)
	b.one(&operations, `SELECT count(*) FROM operations`)
	b.one(&started, `SELECT count(*) FROM begun`)
	b.one(&clusters, `SELECT count(*) FROM clusters`)
	fmt.Printf("three processes: %v; %d requests, %d accepted, %d refused, %d without an answer; %d operations, %d begun at the driver, %d of them anew, %d clusters left\n",
		harms, crowd.asked.Load(), len(crowd.accepted), crowd.refused.Load(), crowd.lost.Load(), operations, started, again, clusters)
}

// harm does one thing after the other to the processes, and counts.
func (c *crowd) harm(last time.Duration, db *pgx.Conn) map[string]int {
	done := map[string]int{}
	for end := time.Now().Add(last); time.Now().Before(end); time.Sleep(1500 * time.Millisecond) {
		victim := c.carafes[rand.IntN(processes)]
		switch n := rand.IntN(10); {
		case n < 6:
			done["killed"]++
			victim.End(syscall.SIGKILL)
			time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond)
			victim.Run()
		case n < 8:
			done["frozen for longer than a lease"]++
			victim.Send(syscall.SIGSTOP)
			time.Sleep(4 * time.Second)
			victim.Send(syscall.SIGCONT)
		default:
			done["connections cut"]++
			if _, err := db.Exec(c.t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid() AND random() < 0.5`); err != nil {
				c.t.Error(err)
			}
		}
	}
	return done
}

// crowd is the clients, and what they were told.
type crowd struct {
	t                    *testing.T
	carafes              []*instance.Instance
	asked, refused, lost atomic.Int64
	mu                   sync.Mutex
	accepted             map[string]request // by request id
}

// request is one that was accepted: the kind of operation, and the cluster.
type request struct{ kind, cluster string }

// client makes a cluster, asks for this and that about it, deletes it or leaves
// it, and begins anew.
func (c *crowd) client(ctx context.Context, n int) {
	for life := 0; ctx.Err() == nil; life++ {
		name := fmt.Sprintf("c%d-%d", n, life)
		id := ""
		for id == "" && ctx.Err() == nil { // until there is an answer, with the same key
			id = c.ask(ctx, "cluster.create", "", "POST", "/v1/clusters", fmt.Sprintf(`{"name": %q, "cluster_template_id": "small", "node_count": 2}`, name), name)
		}
		for range rand.IntN(8) {
			c.change(ctx, id)
		}
		if rand.IntN(2) == 0 {
			c.ask(ctx, "cluster.delete", id, "DELETE", "/v1/clusters/"+id, "", "")
		}
	}
}

// change asks for something about a cluster.
func (c *crowd) change(ctx context.Context, id string) {
	switch rand.IntN(6) {
	case 0, 1:
		c.ask(ctx, "cluster.resize", id, "POST", "/v1/clusters/"+id+"/actions/resize", fmt.Sprintf(`{"node_count": %d}`, 1+rand.IntN(5)), "")
	case 2:
		c.ask(ctx, "nodegroup.create", id, "POST", "/v1/clusters/"+id+"/nodegroups", `{"name": "more", "node_count": 1}`, "")
	case 3:
		c.ask(ctx, "nodegroup.delete", id, "DELETE", "/v1/clusters/"+id+"/nodegroups/more", "", "")
	case 4:
		c.ask(ctx, "ca.rotate", id, "PATCH", "/v1/certificates/"+id, "", "")
	case 5:
		c.ask(ctx, "credential.rotate", id, "PATCH", "/v1/credentials/"+id, "", "")
	}
}

// ask sends a request to any of the processes and gives the uuid of the answer.
func (c *crowd) ask(ctx context.Context, kind, cluster, method, path, body, key string) string {
	c.asked.Add(1)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, c.carafes[rand.IntN(processes)].URL+path, strings.NewReader(body))
	if err != nil {
		c.t.Error(err)
		return ""
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("OpenStack-API-Version", "container-infra latest")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.lost.Add(1)
		time.Sleep(50 * time.Millisecond) // it is being started again
		return ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.lost.Add(1)
		return ""
	}
	if resp.StatusCode >= 300 {
		c.refused.Add(1)
		if resp.StatusCode == http.StatusInternalServerError {
			c.t.Errorf("%s %s: %d %s", method, path, resp.StatusCode, text)
		}
		return ""
	}
	var answer struct{ UUID string }
	if len(text) > 0 && json.Unmarshal(text, &answer) != nil {
		c.t.Errorf("%s %s: %d %s", method, path, resp.StatusCode, text)
	}
	if kind == "cluster.create" {
		cluster = answer.UUID
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.accepted[resp.Header.Get("X-OpenStack-Request-ID")] = request{kind, cluster}
	return answer.UUID
}

// rest waits until nothing is open and nothing is in the outbox.
func (c *crowd) rest(b *bench, when string) {
	open := -1
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		b.one(&open, `SELECT (SELECT count(*) FROM operations WHERE finished_at IS NULL) + (SELECT count(*) FROM events WHERE published_at IS NULL)`)
		if open == 0 {
			return
		}
	}
	c.t.Errorf("%s, %d operations and events have come to no end", when, open)
}

// check compares what the clients were told with what has become of it.
func (c *crowd) check(b *bench) {
	for id, r := range c.accepted {
		// An answer that was lost was asked for again, and stands for the same operation;
		// what is being deleted already is deleted once.
		var n int
		b.one(&n, `SELECT count(*) FROM operations WHERE kind = $1 AND cluster_id::text = $2 AND
			(request_id = $3 OR kind IN ('cluster.create', 'cluster.delete', 'nodegroup.delete'))`, r.kind, r.cluster, id)
		if n == 0 {
			c.t.Errorf("accepted and lost: %s of %s (%s)", r.kind, r.cluster, id)
		}
	}
	var failed string
	b.one(&failed, `SELECT coalesce(string_agg(kind || ': ' || coalesce(error, ''), '; '), '') FROM operations WHERE state = 'failed'`)
	if failed != "" {
		c.t.Errorf("failed although nothing was wrong with them: %s", failed)
	}
	var disorder string
	b.one(&disorder, `SELECT coalesce(string_agg(format('%s %s at %s after %s at %s', type, outcome, published_at, previous, before), '; '), '') FROM (
		SELECT type, outcome, published_at, lag(type || ' ' || outcome) OVER cluster AS previous, lag(published_at) OVER cluster AS before
		FROM events WHERE partition_key IS NOT NULL WINDOW cluster AS (PARTITION BY partition_key ORDER BY seq)) e WHERE before > published_at`)
	if disorder != "" {
		c.t.Errorf("notifications out of order: %s", disorder)
	}
	for what, sql := range map[string]string{
		"operations of one request":                     `SELECT count(*) FROM (SELECT 1 FROM operations GROUP BY request_id HAVING count(*) > 1) twice`,
		"clusters created at the driver more than once": `SELECT count(*) FROM (SELECT 1 FROM begun WHERE operation = 'create' GROUP BY operation_id HAVING count(*) > 1) twice`,
		"states of a cluster that went back at the driver": `SELECT count(*) FROM (SELECT version, lag(version) OVER (PARTITION BY cluster_id ORDER BY n) AS before
			FROM begun) passed WHERE before > version`,
		"node groups of another size at the driver": `SELECT count(*) FROM nodegroups n JOIN simulated_clusters s USING (cluster_id)
			WHERE jsonb_array_length(nullif(s.nodes -> n.uuid::text -> 'now', 'null')) IS DISTINCT FROM n.node_count`,
		"clusters without the last size asked for": `SELECT count(*) FROM nodegroups n JOIN LATERAL (
			SELECT o.arguments ->> 'node_count' AS wish FROM operations o WHERE o.nodegroup_id = n.uuid AND o.kind = 'cluster.resize' ORDER BY seq DESC LIMIT 1) last ON true
			WHERE n.node_count::text <> wish`,
		"notifications": `SELECT count(*) FROM (SELECT o.id FROM operations o LEFT JOIN events e ON e.operation_id = o.id AND e.outcome IS NOT NULL GROUP BY o.id
			HAVING count(*) FILTER (WHERE e.outcome = 'pending') <> 1 OR count(*) FILTER (WHERE e.outcome <> 'pending') <> 1) wrong`,
		"creates for one Idempotency-Key":              `SELECT abs((SELECT count(*) FROM operations WHERE kind = 'cluster.create') - (SELECT count(*) FROM idempotency_keys))`,
		"clusters or groups in progress":               `SELECT (SELECT count(*) FROM clusters WHERE status LIKE '%IN_PROGRESS') + (SELECT count(*) FROM nodegroups WHERE status LIKE '%IN_PROGRESS')`,
		"clusters without four certificates in force":  `SELECT count(*) FROM clusters c WHERE (SELECT count(*) FROM certificates s WHERE s.cluster_id = c.uuid AND s.state = 'active') <> 4`,
		"clusters that are gone without a delete":      `SELECT count(*) FROM operations o WHERE o.kind = 'cluster.create' AND NOT EXISTS (SELECT 1 FROM clusters WHERE uuid = o.cluster_id) AND NOT EXISTS (SELECT 1 FROM operations d WHERE d.cluster_id = o.cluster_id AND d.kind = 'cluster.delete' AND d.state = 'succeeded')`,
		"clusters that are there in spite of a delete": `SELECT count(*) FROM operations d JOIN clusters c ON c.uuid = d.cluster_id WHERE d.kind = 'cluster.delete' AND d.state = 'succeeded'`,
		"clusters of the driver's that are nobody's":   `SELECT count(*) FROM simulated_clusters s WHERE NOT EXISTS (SELECT 1 FROM clusters WHERE uuid = s.cluster_id)`,
	} {
		var n int
		if b.one(&n, sql); n > 0 {
			c.t.Errorf("%s: %d are wrong", what, n)
		}
	}
}
