package postgres

import (
	"context"
	"time"

	"carafe/shared/postgres/internal/sqlc"
)

// Ticks say when a cluster is looked at next.
type Ticks struct {
	s     *sqlc.Queries
	later later
}

// Tick is what the ticks keep about a cluster.
type Tick struct {
	ClusterID       string
	SyncDueAt       *time.Time
	SyncMisses      int
	Failure         *string // of an operation, while others still go on
	HealthDueAt     *time.Time
	HealthMisses    int
	HealthCheckedAt *time.Time
}

// ClaimSync takes up to batch clusters whose status is due and moves their next
// time to next.
func (x Ticks) ClaimSync(ctx context.Context, now, next time.Time, batch int32) ([]string, error) {
	ids, err := x.s.ClaimSync(ctx, sqlc.ClaimSyncParams{Now: &now, NextAt: &next, Batch: batch})
	return ids, classify(err, "claim clusters to sync")
}

// ScheduleSync sets when the cluster's status is due (nil: no more), how many
// observations in a row failed, and what has failed while others go on.
func (x Ticks) ScheduleSync(ctx context.Context, clusterID string, due *time.Time, misses int, failure *string) error {
	return classify(x.later(nil).ScheduleSync(ctx, sqlc.ScheduleSyncParams{ClusterID: clusterID, DueAt: due, Misses: misses, Failure: failure}), "schedule sync")
}

// ScheduleBoth is ScheduleSync and ScheduleHealth in one statement.
func (x Ticks) ScheduleBoth(ctx context.Context, clusterID string, sync *time.Time, misses int, failure *string, health *time.Time) error {
	return classify(x.later(nil).ScheduleBoth(ctx, sqlc.ScheduleBothParams{ClusterID: clusterID, SyncDueAt: sync, Misses: misses,
		Failure: failure, HealthDueAt: health}), "schedule ticks")
}

// DueSync counts the clusters whose status is due.
func (x Ticks) DueSync(ctx context.Context, now time.Time) (int, error) {
	n, err := x.s.CountDueSync(ctx, &now)
	return n, classify(err, "count clusters to sync")
}

// ClaimHealth is ClaimSync for health.
func (x Ticks) ClaimHealth(ctx context.Context, now, next time.Time, batch int32) ([]string, error) {
	ids, err := x.s.ClaimHealth(ctx, sqlc.ClaimHealthParams{Now: &now, NextAt: &next, Batch: batch})
	return ids, classify(err, "claim clusters to probe")
}

// ScheduleHealth sets when the cluster's health is due; nil: it is not probed.
func (x Ticks) ScheduleHealth(ctx context.Context, clusterID string, due *time.Time) error {
	return classify(x.later(nil).ScheduleHealth(ctx, sqlc.ScheduleHealthParams{ClusterID: clusterID, DueAt: due}), "schedule health")
}

// RecordProbe notes that a probe was made and how many in a row said otherwise
// than the stored verdict.
func (x Ticks) RecordProbe(ctx context.Context, clusterID string, misses int, checkedAt time.Time) error {
	return classify(x.later(nil).RecordProbe(ctx, sqlc.RecordProbeParams{ClusterID: clusterID, Misses: misses, CheckedAt: &checkedAt}), "record probe")
}

// DueHealth counts the clusters whose health is due.
func (x Ticks) DueHealth(ctx context.Context, now time.Time) (int, error) {
	n, err := x.s.CountDueHealth(ctx, &now)
	return n, classify(err, "count clusters to probe")
}

// Of reads the ticks of many clusters, by cluster uuid.
func (x Ticks) Of(ctx context.Context, clusterIDs []string) (map[string]Tick, error) {
	rows, err := x.s.Ticks(ctx, clusterIDs)
	of := make(map[string]Tick, len(rows))
	for _, r := range rows {
		of[r.ClusterID] = Tick(r)
	}
	return of, classify(err, "read ticks")
}
