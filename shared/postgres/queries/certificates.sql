-- name: InsertCertificate :exec
-- The intention, before there is a secret anywhere.
INSERT INTO certificates (cluster_id, kind, epoch, state, backend, created_at)
VALUES (@cluster_id, @kind, @epoch, 'pending', @backend, @created_at)
ON CONFLICT DO NOTHING;

-- name: CompleteCertificate :exec
UPDATE certificates SET ref = @ref, certificate = @certificate, sealed_key = @sealed_key, key_id = @key_id,
    not_before = @not_before, not_after = @not_after, serial = @serial
WHERE cluster_id = @cluster_id AND kind = @kind AND epoch = @epoch AND state = 'pending' AND certificate IS NULL;

-- name: RenewCertificate :execrows
UPDATE certificates SET certificate = @certificate, not_before = @not_before, not_after = @not_after, serial = @serial
WHERE cluster_id = @cluster_id AND kind = @kind AND epoch = @epoch AND serial = @old_serial;

-- name: CertificatesOfEpoch :many
SELECT * FROM certificates WHERE cluster_id = @cluster_id AND epoch = @epoch;

-- name: ActiveCertificates :many
SELECT * FROM certificates
WHERE cluster_id = @cluster_id AND state = 'active' AND kind = ANY (@kinds::text[]);

-- name: NextCertificateEpoch :one
SELECT (coalesce(max(epoch), 0) + 1)::integer FROM certificates WHERE cluster_id = @cluster_id;

-- name: ActivateCertificates :execrows
-- All four of the epoch or none of them, and what was in force retires with the same statement.
UPDATE certificates c SET state = CASE WHEN c.epoch = @epoch THEN 'active' ELSE 'retiring' END
WHERE c.cluster_id = @cluster_id
    AND (c.epoch = @epoch AND c.state = 'pending' OR c.epoch < @epoch AND c.state = 'active')
    AND 4 = (SELECT count(*) FROM certificates n
        WHERE n.cluster_id = @cluster_id AND n.epoch = @epoch AND n.certificate IS NOT NULL AND n.state IN ('pending', 'active'));

-- name: MarkCertificates :many
-- What is to be deleted, whoever marked it.
UPDATE certificates SET state = 'deleting'
WHERE cluster_id = @cluster_id AND (state = ANY (@states::text[]) OR state = 'deleting')
    AND epoch BETWEEN @from_epoch AND @to_epoch
RETURNING *;

-- name: DeleteCertificate :execrows
DELETE FROM certificates WHERE cluster_id = @cluster_id AND kind = @kind AND epoch = @epoch AND state = 'deleting';

-- name: RetiredEpochs :many
-- Epochs that another has replaced before that time, what a failed rotation left,
-- and what a crash left half deleted.
SELECT DISTINCT r.cluster_id, r.epoch FROM certificates r
WHERE r.state = 'deleting'
    OR r.state = 'retiring' AND EXISTS (SELECT 1 FROM certificates a
        WHERE a.cluster_id = r.cluster_id AND a.kind = r.kind AND a.state = 'active' AND a.created_at < @before)
    OR r.state = 'pending' AND r.created_at < @before AND NOT EXISTS (SELECT 1 FROM operations o
        WHERE o.cluster_id = r.cluster_id AND o.state IN ('pending', 'running', 'waiting'))
ORDER BY r.cluster_id, r.epoch LIMIT @batch;

-- name: CertificatesToReseal :many
SELECT * FROM certificates WHERE key_id <> @key_id AND sealed_key IS NOT NULL
ORDER BY cluster_id, kind, epoch LIMIT @batch;

-- name: ResealCertificate :execrows
UPDATE certificates SET sealed_key = @sealed_key, key_id = @key_id
WHERE cluster_id = @cluster_id AND kind = @kind AND epoch = @epoch AND key_id = @old_key_id;
