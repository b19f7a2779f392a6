-- name: InsertFederation :one
INSERT INTO federations (uuid, project_id, name, hostcluster_id, member_ids, status, properties, created_at)
VALUES (@uuid, @project_id, @name, @hostcluster_id, @member_ids, @status, @properties, @created_at) RETURNING *;

-- name: LockFederation :one
SELECT * FROM federations WHERE uuid = @uuid FOR UPDATE;

-- name: UpdateFederation :one
UPDATE federations SET version = version + 1, member_ids = @member_ids, properties = @properties,
    status = @status, status_reason = @status_reason, updated_at = @updated_at
WHERE uuid = @uuid AND version = @version RETURNING version;

-- name: DeleteFederation :execrows
DELETE FROM federations WHERE uuid = @uuid;
