-- name: InsertOperation :exec
INSERT INTO operations (id, kind, cluster_id, nodegroup_id, arguments, state, user_id, project_id, domain_id,
                        request_id, traceparent, created_at, due_at, deadline_at)
VALUES (@id, @kind, @cluster_id, @nodegroup_id, @arguments, 'pending', @user_id, @project_id, @domain_id,
        @request_id, @traceparent, @created_at, @created_at, @deadline_at);

-- name: Operation :one
SELECT * FROM operations WHERE id = @id;

-- name: OpenOperations :many
SELECT * FROM operations
WHERE cluster_id = @cluster_id AND state IN ('pending', 'running', 'waiting') ORDER BY seq;

-- name: OpenOperationsOf :many
SELECT * FROM operations
WHERE cluster_id = ANY (@cluster_ids::uuid[]) AND state IN ('pending', 'running', 'waiting') ORDER BY seq;

-- Serializes the claims of one cluster; the claim is the next statement, so that it
-- sees what the one before it committed.
-- name: LockOperations :exec
SELECT pg_advisory_xact_lock(hashtextextended('operations of ' || @cluster_id::text, 0));

-- A handler works on an operation only while it is the only one at work on the
-- cluster: a driver call that began earlier would otherwise land after a later one.
-- name: ClaimOperation :one
UPDATE operations o SET
    state = 'running', lease_owner = @owner::text, lease_until = @lease_until, fence = fence + 1,
    attempt = attempt + 1, started_at = coalesce(started_at, @now)
WHERE o.id = @id
  AND ((o.state = 'pending' AND o.due_at <= @now) OR (o.state = 'running' AND o.lease_until < @now))
  AND NOT EXISTS (
      SELECT 1 FROM operations other
      WHERE other.cluster_id = o.cluster_id AND other.id <> o.id
        AND other.state = 'running' AND other.lease_until >= @now)
RETURNING *;

-- name: RenewLease :execrows
UPDATE operations SET lease_until = @lease_until WHERE id = @id AND fence = @fence AND state = 'running';

-- The fence: locks the operation for the transaction if the caller still holds it.
-- name: HoldOperation :one
SELECT * FROM operations WHERE id = @id AND fence = @fence AND state = 'running' FOR UPDATE;

-- name: RecordStep :execrows
UPDATE operations SET steps = array_append(steps, @step::text), attempt = 1, error = NULL
WHERE id = @id AND fence = @fence AND state = 'running' AND superseded_by IS NULL;

-- Ends at once what waits; what runs is told, and its handler ends it.
-- name: SupersedeOperation :one
UPDATE operations SET
    superseded_by = @by::uuid,
    state = CASE WHEN state = 'running' THEN state ELSE 'superseded' END,
    finished_at = CASE WHEN state = 'running' THEN NULL ELSE @now::timestamptz END
WHERE id = @id AND state IN ('pending', 'running', 'waiting') AND superseded_by IS NULL
RETURNING *;

-- Those that a later wish replaced while they ran, and whose handler died before it
-- noticed.
-- name: EndOvertaken :many
UPDATE operations SET state = 'superseded', lease_owner = NULL, lease_until = NULL, finished_at = @now::timestamptz
WHERE cluster_id = @cluster_id AND state = 'running' AND superseded_by IS NOT NULL AND lease_until < @now::timestamptz
RETURNING *;

-- The oldest of the cluster that could be worked on now.
-- name: NextOperation :one
SELECT * FROM operations
WHERE cluster_id = @cluster_id AND state = 'pending' AND due_at <= @now ORDER BY seq LIMIT 1;

-- name: MoveOperation :exec
UPDATE operations SET
    state = @state, lease_owner = NULL, lease_until = NULL, due_at = @due_at,
    error = @error, error_code = @error_code, finished_at = @finished_at,
    steps = CASE WHEN @step::text = '' THEN steps ELSE array_append(steps, @step::text) END,
    attempt = CASE WHEN @step::text = '' THEN attempt ELSE 0 END
WHERE id = @id AND state = @from_state AND fence = @fence;

-- name: OverdueOperations :many
SELECT * FROM operations
WHERE state IN ('pending', 'running', 'waiting') AND deadline_at <= @now
  AND (state <> 'running' OR lease_until < @now)
ORDER BY deadline_at LIMIT @batch;

-- What nobody works on although it is due, and whose command neither waits in the
-- outbox nor has just left it.
-- name: StrandedOperations :many
SELECT * FROM operations o
WHERE o.state IN ('pending', 'running', 'waiting')
  AND ((o.state = 'pending' AND o.due_at <= @before) OR (o.state = 'running' AND o.lease_until < @now))
  AND NOT EXISTS (
      SELECT 1 FROM events e WHERE e.operation_id = o.id AND e.outcome IS NULL
        AND (e.published_at IS NULL OR e.published_at > @before))
ORDER BY o.due_at LIMIT @batch;

-- name: ForgetOperations :execrows
DELETE FROM operations WHERE id IN (
    SELECT old.id FROM operations old WHERE old.finished_at < @before ORDER BY old.finished_at LIMIT @batch);

-- name: OperationsOfCluster :many
SELECT * FROM operations
WHERE cluster_id = @cluster_id AND (@before_seq::bigint = 0 OR seq < @before_seq)
ORDER BY seq DESC LIMIT @page;
