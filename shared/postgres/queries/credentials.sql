-- name: InsertCredential :exec
INSERT INTO credentials (cluster_id, epoch, state, credential_id, user_id, sealed_secret, key_id, created_at)
VALUES (@cluster_id, @epoch, @state, @credential_id, @user_id, @sealed_secret, @key_id, @created_at);

-- name: Credentials :many
SELECT * FROM credentials WHERE cluster_id = @cluster_id ORDER BY epoch;

-- name: NextCredentialEpoch :one
SELECT (coalesce(max(epoch), 0) + 1)::integer FROM credentials WHERE cluster_id = @cluster_id;

-- name: ActivateCredential :execrows
UPDATE credentials c SET state = CASE WHEN c.epoch = @epoch THEN 'active' ELSE 'retiring' END
WHERE c.cluster_id = @cluster_id
    AND (c.epoch = @epoch AND c.state = 'pending' OR c.epoch < @epoch AND c.state = 'active')
    AND EXISTS (SELECT 1 FROM credentials n
        WHERE n.cluster_id = @cluster_id AND n.epoch = @epoch AND n.state IN ('pending', 'active'));

-- name: MarkCredentials :many
UPDATE credentials SET state = 'deleting'
WHERE cluster_id = @cluster_id AND (state = ANY (@states::text[]) OR state = 'deleting')
    AND epoch BETWEEN @from_epoch AND @to_epoch
RETURNING *;

-- name: DeleteCredential :execrows
DELETE FROM credentials WHERE cluster_id = @cluster_id AND epoch = @epoch AND state = 'deleting';

-- name: CredentialsToReseal :many
SELECT * FROM credentials WHERE key_id <> @key_id AND sealed_secret IS NOT NULL
ORDER BY cluster_id, epoch LIMIT @batch;

-- name: ResealCredential :execrows
UPDATE credentials SET sealed_secret = @sealed_secret, key_id = @key_id
WHERE cluster_id = @cluster_id AND epoch = @epoch AND key_id = @old_key_id;
