-- name: CountClusters :many
SELECT status, coalesce(health_status, 'UNKNOWN')::text AS health, count(*) AS number
FROM clusters GROUP BY 1, 2;

-- name: CountNodeGroups :many
SELECT status, count(*) AS number FROM nodegroups GROUP BY 1;

-- name: CountOpenOperations :many
SELECT kind, state, count(*) AS number FROM operations
WHERE state IN ('pending', 'running', 'waiting') GROUP BY 1, 2;

-- Everything that is late, each from its partial index.
-- name: Lags :one
SELECT
    (SELECT count(*) FROM events WHERE published_at IS NULL) AS outbox_events,
    coalesce((SELECT min(created_at) FROM events WHERE published_at IS NULL), @now)::timestamptz AS outbox_oldest,
    (SELECT count(*) FROM cluster_ticks WHERE sync_due_at <= @now) AS sync_due,
    coalesce((SELECT min(sync_due_at) FROM cluster_ticks WHERE sync_due_at <= @now), @now)::timestamptz AS sync_oldest,
    (SELECT count(*) FROM cluster_ticks WHERE health_due_at <= @now) AS health_due,
    coalesce((SELECT min(health_due_at) FROM cluster_ticks WHERE health_due_at <= @now), @now)::timestamptz AS health_oldest,
    (SELECT count(*) FROM dead_letters) AS dead_letters;
