-- name: InsertNodeGroup :one
INSERT INTO nodegroups (
    uuid, name, cluster_id, project_id, docker_volume_size, labels, flavor_id, image_id, node_count, role,
    min_node_count, max_node_count, is_default, stack_id, status, node_labels, node_taints, created_at)
VALUES (
    @uuid, @name, @cluster_id, @project_id, @docker_volume_size, @labels, @flavor_id, @image_id, @node_count, @role,
    @min_node_count, @max_node_count, @is_default, @stack_id, @status, @node_labels, @node_taints, @created_at)
RETURNING *;

-- name: NodeGroups :many
SELECT * FROM nodegroups WHERE cluster_id = @cluster_id ORDER BY id;

-- name: NodeGroupsOf :many
SELECT * FROM nodegroups WHERE cluster_id = ANY (@cluster_ids::uuid[]) ORDER BY cluster_id, id;

-- name: UpdateNodeGroup :exec
UPDATE nodegroups SET
    revision = revision + 1, node_addresses = @node_addresses, node_count = @node_count,
    min_node_count = @min_node_count, max_node_count = @max_node_count, stack_id = @stack_id,
    status = @status, status_reason = @status_reason, node_labels = @node_labels,
    node_taints = @node_taints, image_id = @image_id, labels = @labels, updated_at = @updated_at
WHERE uuid = @uuid AND revision = @revision;

-- name: DeleteNodeGroup :execrows
DELETE FROM nodegroups WHERE uuid = @uuid AND NOT is_default;
