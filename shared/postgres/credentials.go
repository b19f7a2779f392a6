package postgres

import (
	"context"

	"carafe/shared/fault"
	"carafe/shared/postgres/internal/sqlc"
)

// Credentials gives the rows of application credentials.
func (x Secrets) Credentials() Credentials { return Credentials{x.s} }

// Credentials are the application credentials of clusters, of all epochs.
type Credentials struct{ s *sqlc.Queries }

// CredentialRow is the credential of one epoch of a cluster.
type CredentialRow = sqlc.Credential

// Insert records a credential that exists in Keystone.
func (x Credentials) Insert(ctx context.Context, r CredentialRow) error {
	return classify(x.s.InsertCredential(ctx, sqlc.InsertCredentialParams(r)), "insert credential")
}

// Of gives the cluster's credentials, oldest first, whatever their state.
func (x Credentials) Of(ctx context.Context, clusterID string) ([]CredentialRow, error) {
	rows, err := x.s.Credentials(ctx, clusterID)
	return rows, classify(err, "read credentials")
}

// NextEpoch is one more than the highest epoch that the cluster has.
func (x Credentials) NextEpoch(ctx context.Context, clusterID string) (int, error) {
	n, err := x.s.NextCredentialEpoch(ctx, clusterID)
	return n, classify(err, "read credential epochs")
}

// Activate puts a credential in force and retires the one before, in one
// statement. Fault Conflict: there is none of that epoch, or it is on its way
// out. It may run twice.
func (x Credentials) Activate(ctx context.Context, clusterID string, epoch int) error {
	n, err := x.s.ActivateCredential(ctx, sqlc.ActivateCredentialParams{ClusterID: clusterID, Epoch: epoch})
	if err != nil || n > 0 {
		return classify(err, "activate credential")
	}
	rows, err := x.Of(ctx, clusterID)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.Epoch == epoch && r.State == SecretActive {
			return nil
		}
	}
	return fault.New(fault.Conflict, "The credential of epoch %d of cluster %s cannot be put in force.", epoch, clusterID)
}

// MarkDeleting moves the rows between two epochs that are in one of the states
// to deleting, and gives them with those that were there already.
func (x Credentials) MarkDeleting(ctx context.Context, clusterID string, fromEpoch, toEpoch int, states ...string) ([]CredentialRow, error) {
	rows, err := x.s.MarkCredentials(ctx, sqlc.MarkCredentialsParams{
		ClusterID: clusterID, FromEpoch: fromEpoch, ToEpoch: toEpoch, States: states,
	})
	return rows, classify(err, "mark credentials")
}

// Remove takes away a row in deleting, after the credential is gone.
func (x Credentials) Remove(ctx context.Context, r CredentialRow) error {
	_, err := x.s.DeleteCredential(ctx, sqlc.DeleteCredentialParams{ClusterID: r.ClusterID, Epoch: r.Epoch})
	return classify(err, "delete credential")
}

// SealedOtherwise gives up to limit rows whose secret is sealed under another
// key than that.
func (x Credentials) SealedOtherwise(ctx context.Context, keyID string, limit int) ([]CredentialRow, error) {
	rows, err := x.s.CredentialsToReseal(ctx, sqlc.CredentialsToResealParams{KeyID: &keyID, Batch: int32(limit)})
	return rows, classify(err, "read credentials to reseal")
}

// Reseal replaces the sealed secret of a row, unless another was quicker.
func (x Credentials) Reseal(ctx context.Context, r CredentialRow, sealed []byte, keyID string) error {
	_, err := x.s.ResealCredential(ctx, sqlc.ResealCredentialParams{
		ClusterID: r.ClusterID, Epoch: r.Epoch, OldKeyID: r.KeyID, SealedSecret: sealed, KeyID: &keyID,
	})
	return classify(err, "reseal credential")
}
