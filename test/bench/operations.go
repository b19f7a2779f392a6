package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// accepted measures the way of a create: from the request to its answer, to the
// driver that has taken it, and to the status that says so, at a steady rate
// whatever the answers do.
func (b *bench) accepted(ctx context.Context, algorithm string, perSecond int, length time.Duration) error {
	address, conn, err := b.database(ctx, "accepted_"+algorithm)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	template, err := publicTemplate(ctx, conn)
	if err != nil {
		return err
	}
	p, err := b.start(address, "/v1", []string{"CARAFE_X509_KEY_ALGORITHM=" + algorithm})
	if err != nil {
		return err
	}
	defer func() { _ = p.stop() }()

	n := int(length.Seconds() * float64(perSecond))
	sent, answered := make([]time.Time, n), make([]time.Duration, n)
	ids, errs := make([]string, n), make([]error, n)
	ours, theirs := p.cpu(), b.postgresCPU()
	var running sync.WaitGroup
	began := time.Now()
	for i := range n {
		time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(perSecond))))
		running.Go(func() {
			c, err := dial(p.address)
			if err != nil {
				errs[i] = err
				return
			}
			defer c.Close()
			r := request{method: http.MethodPost, path: "/v1/clusters", project: fmt.Sprint("p", i%projects), body: creation(template)}
			var body []byte
			sent[i] = time.Now()
			errs[i] = c.ask(r.wire(), http.StatusAccepted, &body)
			answered[i] = time.Since(sent[i])
			var made struct{ UUID string }
			if errs[i] == nil {
				errs[i] = json.Unmarshal(body, &made)
			}
			ids[i] = made.UUID
			if errs[i] == nil { // what was accepted can be seen
				errs[i] = c.ask(request{method: http.MethodGet, path: "/v1/clusters/" + made.UUID, project: r.project}.wire(), http.StatusOK, nil)
			}
		})
	}
	running.Wait()
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("create: %w", err)
		}
	}
	taken, done := make([]time.Duration, n), make([]time.Duration, n)
	deadline := time.Now().Add(2 * time.Minute)
	for i := range n {
		for {
			var began, finished *time.Time
			err := conn.QueryRow(ctx, `SELECT s.began_at, o.finished_at FROM operations o LEFT JOIN simulated_clusters s USING (cluster_id)
				WHERE o.cluster_id = $1`, ids[i]).Scan(&began, &finished)
			if err != nil {
				return err
			}
			if finished != nil {
				taken[i], done[i] = began.Sub(sent[i]), finished.Sub(sent[i])
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("cluster %s is not made", ids[i])
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	each := func(d time.Duration) string { return ms(d / time.Duration(n)) }
	pair := func(all []time.Duration) string {
		return fmt.Sprintf("p50 %s, p99 %s", ms(quantile(all, 0.5)), ms(quantile(all, 0.99)))
	}
	name := fmt.Sprintf("%d creates/s, %s keys: request → ", perSecond, algorithm)
	for _, f := range []figure{
		{name + "202", pair(answered)},
		{name + "driver accepted", pair(taken)},
		{name + "CREATE_COMPLETE (a tick every 10 s)", pair(done)},
		{name + "visible to a GET", "in the 202, for all"},
		{name + "end, CPU of Carafe and of PostgreSQL for each", each(p.cpu()-ours) + " + " + each(b.postgresCPU()-theirs)},
	} {
		b.add(&b.operations, f)
	}
	return p.stop()
}
