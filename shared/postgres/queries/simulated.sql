-- Begins what Apply or Delete was told; the same operation once more changes nothing.
-- name: BeginSimulation :one
INSERT INTO simulated_clusters (cluster_id, operation, operation_id, deletes, began_at)
VALUES (@cluster_id, @operation, @operation_id, CASE WHEN @operation::text = 'delete' THEN 1 ELSE 0 END, @now)
ON CONFLICT (cluster_id) DO UPDATE SET
    operation = EXCLUDED.operation, operation_id = EXCLUDED.operation_id, polls = 0, began_at = EXCLUDED.began_at,
    deletes = simulated_clusters.deletes + EXCLUDED.deletes
WHERE simulated_clusters.operation_id IS DISTINCT FROM EXCLUDED.operation_id
   OR simulated_clusters.operation <> EXCLUDED.operation
RETURNING *;

-- name: Simulation :one
SELECT * FROM simulated_clusters WHERE cluster_id = @cluster_id;

-- name: PollSimulations :many
UPDATE simulated_clusters SET polls = polls + 1 WHERE cluster_id = ANY (@cluster_ids::uuid[]) RETURNING *;

-- name: SimulationsOf :many
SELECT * FROM simulated_clusters WHERE cluster_id = ANY (@cluster_ids::uuid[]);

-- name: EndSimulation :exec
DELETE FROM simulated_clusters WHERE cluster_id = @cluster_id;
