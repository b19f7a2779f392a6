package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"carafe/shared/fault"
	"carafe/shared/postgres/internal/sqlc"
)

// States of a certificate or a credential. A row in deleting is all that is
// left of it; the row goes when the secret is gone.
const (
	SecretPending  = "pending"  // made or being made, not in force
	SecretActive   = "active"   // in force
	SecretRetiring = "retiring" // replaced; some still hold what it signed
	SecretDeleting = "deleting"
)

// Certificates gives the rows of certificates.
func (x Secrets) Certificates() Certificates { return Certificates(x) }

// Certificates are the rows of all kinds and epochs. What is in sealed_key, only
// shared/certstore can read.
type Certificates struct {
	q querier
	s *sqlc.Queries
}

// CertificateRow is one kind of one epoch of a cluster.
type CertificateRow = sqlc.Certificate

// CompletedCertificate is what becomes known of a row when its secret is stored.
type CompletedCertificate = sqlc.CompleteCertificateParams

// RenewedCertificate is a new certificate for the key of a row. It counts only
// if the row still has the certificate with OldSerial.
type RenewedCertificate = sqlc.RenewCertificateParams

// Intend records that secrets are about to be stored. It tells of which kinds
// that was not recorded before.
func (x Certificates) Intend(ctx context.Context, clusterID string, kinds []string, epoch int, backend string, now time.Time) (fresh map[string]bool, err error) {
	fresh = map[string]bool{}
	err = together(ctx, x.q, func(later later) {
		for _, kind := range kinds {
			inserted := func(tag pgconn.CommandTag) error {
				fresh[kind] = tag.RowsAffected() == 1
				return nil
			}
			_ = later(inserted).InsertCertificate(ctx, sqlc.InsertCertificateParams{ // it is only queued
				ClusterID: clusterID, Kind: kind, Epoch: epoch, Backend: backend, CreatedAt: now,
			})
		}
	})
	return fresh, classify(err, "insert certificates")
}

// Complete records where secrets are. It tells how many it has recorded: not
// those that another has, and not those whose row is gone or to be deleted.
func (x Certificates) Complete(ctx context.Context, list ...CompletedCertificate) (recorded int, err error) {
	count := func(tag pgconn.CommandTag) error {
		recorded += int(tag.RowsAffected())
		return nil
	}
	err = together(ctx, x.q, func(later later) {
		for _, c := range list {
			_ = later(count).CompleteCertificate(ctx, c) // it is only queued
		}
	})
	return recorded, classify(err, "complete certificates")
}

// Renew replaces a certificate. It reports false if another has done so already.
func (x Certificates) Renew(ctx context.Context, c RenewedCertificate) (bool, error) {
	n, err := x.s.RenewCertificate(ctx, c)
	return n > 0, classify(err, "renew certificate")
}

// OfEpoch gives the rows of one epoch, in no order, whatever their state.
func (x Certificates) OfEpoch(ctx context.Context, clusterID string, epoch int) ([]CertificateRow, error) {
	rows, err := x.s.CertificatesOfEpoch(ctx, sqlc.CertificatesOfEpochParams{ClusterID: clusterID, Epoch: epoch})
	return rows, classify(err, "read certificates")
}

// Active gives the rows of the kinds that are in force, in no order.
func (x Certificates) Active(ctx context.Context, clusterID string, kinds ...string) ([]CertificateRow, error) {
	rows, err := x.s.ActiveCertificates(ctx, sqlc.ActiveCertificatesParams{ClusterID: clusterID, Kinds: kinds})
	return rows, classify(err, "read certificates")
}

// NextEpoch is one more than the highest epoch that the cluster has.
func (x Certificates) NextEpoch(ctx context.Context, clusterID string) (int, error) {
	n, err := x.s.NextCertificateEpoch(ctx, clusterID)
	return n, classify(err, "read certificate epochs")
}

// Activate puts a whole epoch in force and retires the one before, in one
// statement. Fault Conflict: the epoch is not complete, or on its way out. It
// may run twice.
func (x Certificates) Activate(ctx context.Context, clusterID string, epoch int) error {
	n, err := x.s.ActivateCertificates(ctx, sqlc.ActivateCertificatesParams{ClusterID: clusterID, Epoch: epoch})
	if err != nil || n > 0 {
		return classify(err, "activate certificates")
	}
	rows, err := x.OfEpoch(ctx, clusterID, epoch)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.State != SecretActive {
			rows = nil
			break
		}
	}
	if len(rows) == 0 {
		return fault.New(fault.Conflict, "Certificates of epoch %d of cluster %s cannot be put in force.", epoch, clusterID)
	}
	return nil
}

// MarkDeleting moves the rows between two epochs that are in one of the states
// to deleting, and gives them with those that were there already.
func (x Certificates) MarkDeleting(ctx context.Context, clusterID string, fromEpoch, toEpoch int, states ...string) ([]CertificateRow, error) {
	rows, err := x.s.MarkCertificates(ctx, sqlc.MarkCertificatesParams{
		ClusterID: clusterID, FromEpoch: fromEpoch, ToEpoch: toEpoch, States: states,
	})
	return rows, classify(err, "mark certificates")
}

// Remove takes away a row in deleting, after its secret is gone.
func (x Certificates) Remove(ctx context.Context, r CertificateRow) error {
	_, err := x.s.DeleteCertificate(ctx, sqlc.DeleteCertificateParams{ClusterID: r.ClusterID, Kind: r.Kind, Epoch: r.Epoch})
	return classify(err, "delete certificate")
}

// Retired gives up to limit pairs of cluster and epoch that were replaced by an
// epoch made before that time, or made before it and never used, or whose
// deletion was begun.
func (x Certificates) Retired(ctx context.Context, before time.Time, limit int) ([]RetiredEpoch, error) {
	rows, err := x.s.RetiredEpochs(ctx, sqlc.RetiredEpochsParams{Before: before, Batch: int32(limit)})
	return rows, classify(err, "read retired certificates")
}

// RetiredEpoch is an epoch of a cluster that nobody needs any more.
type RetiredEpoch = sqlc.RetiredEpochsRow

// SealedOtherwise gives up to limit rows whose key is sealed under another key
// than that.
func (x Certificates) SealedOtherwise(ctx context.Context, keyID string, limit int) ([]CertificateRow, error) {
	rows, err := x.s.CertificatesToReseal(ctx, sqlc.CertificatesToResealParams{KeyID: &keyID, Batch: int32(limit)})
	return rows, classify(err, "read certificates to reseal")
}

// Reseal replaces the sealed key of a row, unless another was quicker.
func (x Certificates) Reseal(ctx context.Context, r CertificateRow, sealed []byte, keyID string) error {
	_, err := x.s.ResealCertificate(ctx, sqlc.ResealCertificateParams{
		ClusterID: r.ClusterID, Kind: r.Kind, Epoch: r.Epoch, OldKeyID: r.KeyID, SealedKey: sealed, KeyID: &keyID,
	})
	return classify(err, "reseal certificate")
}
