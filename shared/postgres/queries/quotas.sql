-- name: InsertQuota :one
INSERT INTO quotas (project_id, resource, hard_limit, created_at)
VALUES (@project_id, @resource, @hard_limit, @created_at) RETURNING *;

-- name: Quota :one
SELECT * FROM quotas WHERE project_id = @project_id AND resource = @resource;

-- name: UpdateQuota :one
UPDATE quotas SET hard_limit = @hard_limit, updated_at = @updated_at
WHERE project_id = @project_id AND resource = @resource RETURNING *;

-- name: DeleteQuota :execrows
DELETE FROM quotas WHERE project_id = @project_id AND resource = @resource;
