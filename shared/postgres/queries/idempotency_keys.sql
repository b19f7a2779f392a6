-- name: InsertIdempotencyKey :execrows
INSERT INTO idempotency_keys (project_id, key, request_hash, status, body, created_at)
VALUES (@project_id, @key, @request_hash, @status, @body, @created_at)
ON CONFLICT (project_id, key) DO NOTHING;

-- name: IdempotencyKey :one
SELECT * FROM idempotency_keys WHERE project_id = @project_id AND key = @key;

-- name: ForgetIdempotencyKeys :execrows
DELETE FROM idempotency_keys WHERE created_at < @before;
