-- Takes up to @batch clusters that are due and moves their next time; another
-- tick at the same moment skips them.
-- name: ClaimSync :many
WITH due AS (
    SELECT t.cluster_id FROM cluster_ticks t
    WHERE t.sync_due_at <= @now ORDER BY t.sync_due_at LIMIT @batch FOR UPDATE SKIP LOCKED
)
UPDATE cluster_ticks t SET sync_due_at = @next_at FROM due WHERE t.cluster_id = due.cluster_id
RETURNING t.cluster_id;

-- name: ScheduleSync :exec
UPDATE cluster_ticks SET sync_due_at = @due_at, sync_misses = @misses, failure = @failure WHERE cluster_id = @cluster_id;

-- The same, with the next look at its health.
-- name: ScheduleBoth :exec
UPDATE cluster_ticks SET sync_due_at = @sync_due_at, sync_misses = @misses, failure = @failure, health_due_at = @health_due_at
WHERE cluster_id = @cluster_id;

-- name: CountDueSync :one
SELECT count(*)::integer FROM cluster_ticks WHERE sync_due_at <= @now;

-- name: ClaimHealth :many
WITH due AS (
    SELECT t.cluster_id FROM cluster_ticks t
    WHERE t.health_due_at <= @now ORDER BY t.health_due_at LIMIT @batch FOR UPDATE SKIP LOCKED
)
UPDATE cluster_ticks t SET health_due_at = @next_at FROM due WHERE t.cluster_id = due.cluster_id
RETURNING t.cluster_id;

-- name: ScheduleHealth :exec
UPDATE cluster_ticks SET health_due_at = @due_at WHERE cluster_id = @cluster_id;

-- name: RecordProbe :exec
UPDATE cluster_ticks SET health_misses = @misses, health_checked_at = @checked_at WHERE cluster_id = @cluster_id;

-- name: CountDueHealth :one
SELECT count(*)::integer FROM cluster_ticks WHERE health_due_at <= @now;

-- name: Ticks :many
SELECT * FROM cluster_ticks WHERE cluster_id = ANY (@cluster_ids::uuid[]);
