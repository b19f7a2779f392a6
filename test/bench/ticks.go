package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"carafe/shared/certstore"
	"carafe/shared/pki"
	"carafe/shared/postgres"
)

// idle is what a process holds and does when nobody wants anything.
func (b *bench) idle(ctx context.Context, database string) error {
	p, err := b.start(database, "/v1", nil)
	if err != nil {
		return err
	}
	time.Sleep(3 * time.Second) // the start is over
	ours, theirs := threadsCPU(p.cmd.Process.Pid), b.postgresCPU()
	time.Sleep(b.watch)
	share := func(d time.Duration) string {
		return fmt.Sprintf("%.2f %% of a core", 100*d.Seconds()/b.watch.Seconds())
	}
	b.add(&b.standing, figure{fmt.Sprintf("idle over %s clusters at rest: Carafe", thousands(b.many+1010)), share(threadsCPU(p.cmd.Process.Pid) - ours)})
	b.add(&b.standing, figure{"the same: PostgreSQL", share(b.postgresCPU() - theirs)})
	now, _ := p.memory()
	b.memory = append(b.memory, figure{"all functions in one process, idle", fmt.Sprintf("%.0f MiB", now)})
	return p.stop()
}

// tick sends a function the event that its PingSource would, and gives the time
// until it has done all that was due.
func (p *process) tick() (time.Duration, error) {
	r, err := http.NewRequest(http.MethodPost, "http://"+p.address+"/", bytes.NewReader([]byte("{}")))
	if err != nil {
		return 0, err
	}
	for name, value := range map[string]string{"Ce-Id": uuid.NewString(), "Ce-Source": "/bench", "Ce-Type": "dev.knative.sources.ping",
		"Ce-Specversion": "1.0", "Content-Type": "application/json"} {
		r.Header.Set(name, value)
	}
	began := time.Now()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode >= 300 {
		return 0, fmt.Errorf("tick: %s: %s", resp.Status, body)
	}
	return time.Since(began), nil
}

// measureTick makes all clusters due and adds what one tick takes.
func (b *bench) measureTick(ctx context.Context, p *process, conn *pgx.Conn, column, what string) (time.Duration, error) {
	if _, err := conn.Exec(ctx, "UPDATE cluster_ticks SET "+column+" = now()"); err != nil {
		return 0, err
	}
	ours, theirs := p.cpu(), b.postgresCPU()
	took, err := p.tick()
	if err != nil {
		return 0, err
	}
	_, peak := p.memory()
	b.add(&b.standing, figure{what, fmt.Sprintf("%.1f s (CPU %.1f s + %.1f s of PostgreSQL), %.0f MiB at most",
		took.Seconds(), (p.cpu() - ours).Seconds(), (b.postgresCPU() - theirs).Seconds(), peak)})
	return took, nil
}

// made has the simulated driver know the clusters, as made.
const made = `
INSERT INTO simulated_clusters (cluster_id, operation, polls, began_at, version, nodes)
    SELECT uuid, 'create', 1, now(), 1, (SELECT jsonb_object_agg(n.uuid, '{"now": [0], "next": 1}'::jsonb) FROM nodegroups n WHERE n.cluster_id = c.uuid)
    FROM clusters c;
`

// inProgress turns clusters at rest into clusters that the simulated driver is
// making, and goes on making as long as they have the label test_hold.
const inProgress = made + `
UPDATE clusters SET status = 'CREATE_IN_PROGRESS', stack_id = NULL, api_address = NULL, labels = labels || '{"test_hold": "true"}';
UPDATE nodegroups SET status = 'CREATE_IN_PROGRESS', node_addresses = '[]';
INSERT INTO operations (id, kind, cluster_id, state, project_id, user_id, started_at)
    SELECT gen_random_uuid(), 'cluster.create', uuid, 'waiting', project_id, user_id, now() FROM clusters;
UPDATE simulated_clusters s SET polls = 0, operation_id = o.id FROM operations o WHERE o.cluster_id = s.cluster_id;
`

// split cuts statements at semicolons that end a line.
func split(statements string) []string {
	var all []string
	for s := range strings.SplitSeq(statements, ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			all = append(all, s)
		}
	}
	return all
}

// sync measures a tick of statussync over clusters that are all in progress.
func (b *bench) sync(ctx context.Context) error {
	database, conn, err := b.database(ctx, "sync")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if err := fill(ctx, conn, "busy", 1, b.busy); err != nil {
		return err
	}
	if err := execute(ctx, conn, inProgress, nil); err != nil {
		return err
	}
	if err := settle(ctx, conn); err != nil {
		return err
	}
	p, err := b.start(database, "/livez", nil, "statussync")
	if err != nil {
		return err
	}
	defer func() { _ = p.stop() }()
	number := thousands(b.busy)
	if _, err := b.measureTick(ctx, p, conn, "sync_due_at", "statussync, "+number+" clusters in progress: first look"); err != nil {
		return err
	}
	if _, err := b.measureTick(ctx, p, conn, "sync_due_at", "statussync, the same: nothing new"); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "UPDATE clusters SET labels = labels - 'test_hold'"); err != nil {
		return err
	}
	if _, err := b.measureTick(ctx, p, conn, "sync_due_at", "statussync, the same: all are done, with their notifications"); err != nil {
		return err
	}
	var left int
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM clusters WHERE status <> 'CREATE_COMPLETE'").Scan(&left); err != nil {
		return err
	}
	if left > 0 {
		return fmt.Errorf("%d clusters are not complete after the tick that should have seen them", left)
	}
	return p.stop()
}

// health measures a tick of healthmonitor over clusters that have API servers,
// which another process serves; a tenth of them never answers.
func (b *bench) health(ctx context.Context) error {
	database, conn, err := b.database(ctx, "health")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if err := fill(ctx, conn, "watched", 1, b.busy); err != nil {
		return err
	}
	if err := execute(ctx, conn, made, nil); err != nil {
		return err
	}
	if err := b.certify(ctx, database, conn); err != nil {
		return err
	}
	endpoint, err := free()
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(endpoint)
	if _, err := conn.Exec(ctx, `UPDATE clusters SET health_status = NULL, health_status_reason = '{}',
		api_address = format('https://127.%s.%s.%s:%s', number >> 16, number >> 8 & 255, number & 255, $1::text)
		FROM simulated_clusters s WHERE s.cluster_id = uuid`, port); err != nil {
		return err
	}
	if err := settle(ctx, conn); err != nil {
		return err
	}
	fleet, err := b.start(database, "/v1", []string{"CARAFE_SIMULATED_PORT=" + port, "CARAFE_HEALTH_INTERVAL=0s"})
	if err != nil {
		return err
	}
	defer func() { _ = fleet.stop() }()
	p, err := b.start(database, "/livez", nil, "healthmonitor")
	if err != nil {
		return err
	}
	defer func() { _ = p.stop() }()
	number := thousands(b.busy)
	if _, err := b.measureTick(ctx, p, conn, "health_due_at", "healthmonitor, "+number+" clusters over mutual TLS: first look, all rows written"); err != nil {
		return err
	}
	hole, err := blackHole()
	if err != nil {
		return err
	}
	defer hole.Close()
	if _, err := conn.Exec(ctx, "UPDATE clusters SET api_address = $1 WHERE seq % 10 = 0", "https://"+hole.Addr().String()); err != nil {
		return err
	}
	began := time.Now()
	if _, err := b.measureTick(ctx, p, conn, "health_due_at", "healthmonitor, the same with a tenth black-holed"); err != nil {
		return err
	}
	var last time.Time
	var healthy int
	if err := conn.QueryRow(ctx, `SELECT max(t.health_checked_at), count(*) FILTER (WHERE c.health_status = 'HEALTHY')
		FROM clusters c JOIN cluster_ticks t ON t.cluster_id = c.uuid WHERE c.seq % 10 <> 0`).Scan(&last, &healthy); err != nil {
		return err
	}
	b.add(&b.standing, figure{"healthmonitor, the same: the last of the others, and how many are HEALTHY",
		fmt.Sprintf("after %.1f s, %s of %s", last.Sub(began).Seconds(), thousands(healthy), thousands(b.busy-b.busy/10))})
	return nil
}

// certify gives each cluster authorities and a client certificate, with EC keys:
// ten thousand RSA keys would take longer than all else together.
func (b *bench) certify(ctx context.Context, database string, conn *pgx.Conn) error {
	db, err := postgres.Open(ctx, postgres.Config{URL: database, MaxConns: 16})
	if err != nil {
		return err
	}
	defer db.Close()
	settings := pki.DefaultSettings()
	settings.KeyAlgorithm = "ecdsa"
	issuer, err := pki.New(settings, time.Now)
	if err != nil {
		return err
	}
	store, err := certstore.New(certstore.Config{Backend: certstore.Database, SealKeys: certstore.Keys(b.sealKeys), CacheSize: 1000, CacheFor: time.Minute},
		db.Secrets, issuer, nil, time.Now)
	if err != nil {
		return err
	}
	ids, err := column(ctx, conn, "SELECT uuid::text FROM clusters")
	if err != nil {
		return err
	}
	b.say("making certificates for %d clusters", len(ids))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for _, id := range ids {
		group.Go(func() error {
			if err := store.Ensure(ctx, id, 1); err != nil {
				return err
			}
			return certstore.Activate(ctx, db.Secrets, id, 1)
		})
	}
	return group.Wait()
}

// blackHole takes connections and says nothing.
func blackHole() (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, c); c.Close() }()
		}
	}()
	return l, nil
}

// starts measures a cold start with the database up and migrated: one HTTP
// function, as on Knative, and all of Carafe.
func (b *bench) starts(ctx context.Context) error {
	database, conn, err := b.database(ctx, "start")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, s := range []struct {
		name, path string
		functions  []string
	}{
		{"discovery alone", "/", []string{"discovery"}},
		{"clusters alone", "/v1/clusters", []string{"clusters"}},
		{"all functions", "/v1/clusters", nil},
	} {
		var wall, cpu []time.Duration
		for range b.starting {
			p, err := b.start(database, s.path, nil, s.functions...)
			if err != nil {
				return err
			}
			wall, cpu = append(wall, p.answered), append(cpu, p.answeredCPU)
			if err := p.stop(); err != nil {
				return err
			}
		}
		b.add(&b.cold, figure{s.name + ": first answer to GET " + s.path, fmt.Sprintf("%s of wall time, %s of CPU", ms(median(wall)), ms(median(cpu)))})
	}
	return nil
}
