package postgres

import (
	"context"
	"time"

	"carafe/shared/postgres/internal/sqlc"
	"carafe/shared/telemetry"
)

// State counts what there is and what is late, for the gauges. It reads clusters and
// node groups whole: for each collection of metrics by one process, not for requests.
func (db *DB) State(ctx context.Context, now time.Time) (telemetry.State, error) {
	now = now.Truncate(time.Microsecond) // what PostgreSQL keeps: a lag of nothing is 0
	q := sqlc.New(db.pool)
	clusters, err := q.CountClusters(ctx)
	if err != nil {
		return telemetry.State{}, classify(err, "count clusters")
	}
	groups, err := q.CountNodeGroups(ctx)
	if err != nil {
		return telemetry.State{}, classify(err, "count node groups")
	}
	operations, err := q.CountOpenOperations(ctx)
	if err != nil {
		return telemetry.State{}, classify(err, "count operations")
	}
	lags, err := q.Lags(ctx, now)
	if err != nil {
		return telemetry.State{}, classify(err, "look for what is late")
	}
	s := telemetry.State{
		Clusters: map[string]int64{}, Health: map[string]int64{}, NodeGroups: map[string]int64{},
		OutboxEvents: lags.OutboxEvents, OutboxAge: now.Sub(lags.OutboxOldest),
		SyncDue: lags.SyncDue, SyncLag: now.Sub(lags.SyncOldest),
		HealthDue: lags.HealthDue, HealthLag: now.Sub(lags.HealthOldest),
		DeadLetters: lags.DeadLetters,
	}
	for _, c := range clusters {
		s.Clusters[c.Status] += c.Number
		s.Health[c.Health] += c.Number
	}
	for _, g := range groups {
		s.NodeGroups[g.Status] = g.Number
	}
	for _, o := range operations {
		s.Operations = append(s.Operations, telemetry.OperationCount{Kind: o.Kind, State: o.State, Count: o.Number})
	}
	return s, nil
}
