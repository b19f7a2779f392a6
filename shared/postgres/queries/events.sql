-- name: InsertEvent :exec
INSERT INTO events (id, type, source, subject, partition_key, operation_id, outcome, priority, project_id, request_id,
                    traceparent, data, created_at, due_at)
VALUES (@id, @type, @source, @subject, @partition_key, @operation_id, @outcome, @priority, @project_id, @request_id,
        @traceparent, @data, @created_at, @due_at)
ON CONFLICT (operation_id, type, outcome) DO NOTHING;

-- Leases what is due, oldest first; of events that keep an order (partition_key)
-- only the first that is not published yet.
-- name: ClaimEvents :many
WITH due AS (
    SELECT e.seq FROM events e
    WHERE e.published_at IS NULL AND e.due_at <= @now
      AND (e.lease_until IS NULL OR e.lease_until < @now)
      AND (e.partition_key IS NULL OR NOT EXISTS (
          SELECT 1 FROM events earlier
          WHERE earlier.partition_key = e.partition_key AND earlier.seq < e.seq AND earlier.published_at IS NULL))
    ORDER BY e.seq LIMIT @batch FOR UPDATE SKIP LOCKED
)
UPDATE events e SET lease_owner = @owner::text, lease_until = @lease_until, attempt = e.attempt + 1
FROM due WHERE e.seq = due.seq AND e.published_at IS NULL
RETURNING e.*;

-- name: MarkPublished :exec
UPDATE events SET published_at = @now, lease_owner = NULL, lease_until = NULL
WHERE id = ANY (@ids::uuid[]) AND lease_owner = @owner::text AND published_at IS NULL;

-- name: PostponeEvent :execrows
UPDATE events SET due_at = @due_at, last_error = @last_error::text, lease_owner = NULL, lease_until = NULL
WHERE id = @id AND lease_owner = @owner::text AND published_at IS NULL;

-- Looks at the first few only, whose order is that of their age.
-- name: ForgetEvents :execrows
DELETE FROM events WHERE seq IN (
    SELECT old.seq FROM events old
    WHERE old.published_at < @before
      AND old.seq < (SELECT min(f.seq) FROM events f WHERE f.published_at IS NOT NULL) + @batch::bigint);

-- name: EventsOfCluster :many
SELECT * FROM events
WHERE subject = @subject AND outcome IS NOT NULL AND (@before_seq::bigint = 0 OR seq < @before_seq)
ORDER BY seq DESC LIMIT @page;

-- name: OutboxLag :one
SELECT count(*)::bigint AS waiting, coalesce(min(created_at), @now)::timestamptz AS oldest
FROM events WHERE published_at IS NULL;

-- name: InsertDeadLetter :exec
INSERT INTO dead_letters (event_id, source, type, subject, destination, error_code, error, data, received_at)
VALUES (@event_id, @source, @type, @subject, @destination, @error_code, @error, @data, @received_at)
ON CONFLICT (source, event_id, destination) DO NOTHING;

-- name: CountDeadLetters :one
SELECT count(*) FROM dead_letters;

-- name: EventSeq :one
SELECT seq FROM events WHERE id = @id AND subject = @subject;
