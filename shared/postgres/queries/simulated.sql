-- name: LockSimulation :one
SELECT * FROM simulated_clusters WHERE cluster_id = @cluster_id FOR UPDATE;

-- name: CreateSimulation :one
INSERT INTO simulated_clusters (cluster_id, operation, operation_id, deletes, began_at, version, nodes)
VALUES (@cluster_id, @operation, @operation_id, @deletes, @began_at, @version, @nodes)
RETURNING *;

-- name: ChangeSimulation :one
UPDATE simulated_clusters SET operation = @operation, operation_id = @operation_id, polls = @polls,
    deletes = @deletes, began_at = @began_at, version = @version, nodes = @nodes
WHERE cluster_id = @cluster_id
RETURNING *;

-- name: PollSimulations :many
UPDATE simulated_clusters SET polls = polls + 1 WHERE cluster_id = ANY (@cluster_ids::uuid[]) RETURNING *;

-- name: SimulationsOf :many
SELECT * FROM simulated_clusters WHERE cluster_id = ANY (@cluster_ids::uuid[]);

-- name: SimulationByNumber :one
SELECT * FROM simulated_clusters WHERE number = @number;

-- name: SimulatedAddresses :many
SELECT s.cluster_id, s.number, c.api_address::text AS api_address
FROM simulated_clusters s JOIN clusters c ON c.uuid = s.cluster_id
WHERE c.api_address IS NOT NULL
ORDER BY s.number DESC;

-- name: MoveSimulatedAddress :exec
UPDATE clusters SET api_address = @api_address::text, version = version + 1 WHERE uuid = @uuid;
