-- name: LockProject :exec
SELECT pg_advisory_xact_lock(hashtextextended('project ' || @project_id::text, 0));

-- The limit of the project, or the default, and what it has.
-- name: ClusterUsage :one
SELECT coalesce((SELECT q.hard_limit FROM quotas q WHERE q.project_id = @project_id AND q.resource = 'Cluster'),
                @default_limit::integer)::integer AS hard_limit,
       (SELECT count(*) FROM clusters c WHERE c.project_id = @project_id)::integer AS used;

-- name: InsertCluster :one
WITH cluster AS (
    INSERT INTO clusters (
        uuid, project_id, user_id, name, cluster_template_id, keypair, docker_volume_size, labels,
        master_flavor_id, flavor_id, status, create_timeout, discovery_url,
        fixed_network, fixed_subnet, floating_ip_enabled, master_lb_enabled, driver, created_at)
    VALUES (
        @uuid, @project_id, @user_id, @name, @cluster_template_id, @keypair, @docker_volume_size, @labels,
        @master_flavor_id, @flavor_id, @status, @create_timeout, @discovery_url,
        @fixed_network, @fixed_subnet, @floating_ip_enabled, @master_lb_enabled, @driver, @created_at)
    RETURNING uuid, seq
), tick AS (
    INSERT INTO cluster_ticks (cluster_id) SELECT uuid FROM cluster
)
SELECT seq FROM cluster;

-- name: Cluster :one
SELECT * FROM clusters WHERE uuid = @uuid;

-- name: LockCluster :one
SELECT * FROM clusters WHERE uuid = @uuid FOR UPDATE;

-- Those that nobody else is changing.
-- name: LockClusters :many
SELECT * FROM clusters WHERE uuid = ANY (@uuids::uuid[]) ORDER BY uuid FOR UPDATE SKIP LOCKED;

-- Everything that operations and observations change. No row: the cluster has
-- changed since it was read.
-- name: UpdateCluster :exec
UPDATE clusters SET
    version = version + 1, user_id = @user_id, cluster_template_id = @cluster_template_id,
    stack_id = @stack_id, api_address = @api_address, status = @status, status_reason = @status_reason,
    coe_version = @coe_version, container_version = @container_version, labels = @labels,
    updated_at = @updated_at
WHERE uuid = @uuid AND version = @version;

-- Health has a life of its own: neither version nor updated_at move (PB-52).
-- name: UpdateClusterHealth :execrows
UPDATE clusters SET health_status = @health_status, health_status_reason = @health_status_reason
WHERE uuid = @uuid
  AND (health_status IS DISTINCT FROM @health_status OR health_status_reason IS DISTINCT FROM @health_status_reason::jsonb);

-- name: DeleteCluster :execrows
DELETE FROM clusters WHERE uuid = @uuid;

-- name: Stats :one
SELECT count(*)::integer AS clusters,
       coalesce(sum((SELECT sum(n.node_count) FROM nodegroups n WHERE n.cluster_id = c.uuid)), 0)::bigint AS nodes
FROM clusters c WHERE @project_id::text = '' OR c.project_id = @project_id;

-- A stack is a cluster's, a node group's, or the one of its nodes, which has the
-- group's own uuid.
-- name: ClusterOfStack :one
SELECT c.uuid FROM clusters c WHERE c.stack_id = @stack_id::text
UNION ALL
SELECT n.cluster_id FROM nodegroups n WHERE n.stack_id = @stack_id::text OR n.uuid = sqlc.narg('nodegroup_id')::uuid
LIMIT 1;
