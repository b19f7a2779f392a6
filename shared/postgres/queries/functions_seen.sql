-- name: SeeFunction :exec
INSERT INTO functions_seen (host, "binary", report_count, last_seen_up, created_at)
VALUES (@host, @binary_name, 1, @now, @now)
ON CONFLICT (host, "binary") DO UPDATE
SET report_count = functions_seen.report_count + 1, last_seen_up = EXCLUDED.last_seen_up, updated_at = EXCLUDED.last_seen_up;

-- name: FunctionsSeen :many
SELECT * FROM functions_seen ORDER BY id;

-- name: ForgetFunctions :execrows
DELETE FROM functions_seen WHERE last_seen_up < @before;
