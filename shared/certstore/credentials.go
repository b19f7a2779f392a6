package certstore

import (
	"context"
	"errors"
	"fmt"
	"math"

	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/postgres"
)

// credentialKind takes the kind's place for credentials.
const credentialKind = "credential"

func credentialPlace(row postgres.CredentialRow) place {
	return place{row.ClusterID, credentialKind, row.Epoch}
}

// NextCredentialEpoch is the epoch of the next credential. Ask in the transaction
// that puts it, with the cluster's row locked.
func NextCredentialEpoch(ctx context.Context, secrets postgres.Secrets, clusterID string) (int, error) {
	return secrets.Credentials().NextEpoch(ctx, clusterID)
}

// PutCredential seals and records an application credential that was just made,
// in the caller's transaction: the first one in force at once, a later one
// pending until ActivateCredential.
func (s *Store) PutCredential(ctx context.Context, secrets postgres.Secrets, clusterID, userID string, c driver.Credential) error {
	row := postgres.CredentialRow{
		ClusterID: clusterID, Epoch: c.Epoch, State: postgres.SecretPending,
		CredentialID: &c.ID, UserID: userID, CreatedAt: s.now(),
	}
	if c.Epoch == 1 {
		row.State = postgres.SecretActive
	}
	sealed, keyID := s.ring.seal(credentialPlace(row), []byte(c.Secret))
	row.SealedSecret, row.KeyID = sealed, &keyID
	return secrets.Credentials().Insert(ctx, row)
}

// Credential gives the credential of an epoch, or the one in force (Active).
// Fault NotFound: there is none.
func (s *Store) Credential(ctx context.Context, clusterID string, epoch int) (driver.Credential, error) {
	rows, err := s.secrets.Credentials().Of(ctx, clusterID)
	if err != nil {
		return driver.Credential{}, err
	}
	for _, row := range rows {
		if row.Epoch != epoch && (epoch != Active || row.State != postgres.SecretActive) {
			continue
		}
		if row.CredentialID == nil {
			break
		}
		secret, err := s.ring.open(credentialPlace(row), row.SealedSecret, row.KeyID)
		return driver.Credential{Epoch: row.Epoch, ID: *row.CredentialID, Secret: string(secret)}, err
	}
	return driver.Credential{}, fault.New(fault.NotFound, "Cluster %s has no application credential.", clusterID)
}

// ActivateCredential puts a credential in force and retires the one before, in
// the caller's transaction. It may run twice.
func ActivateCredential(ctx context.Context, secrets postgres.Secrets, clusterID string, epoch int) error {
	return secrets.Credentials().Activate(ctx, clusterID, epoch)
}

// Revoke takes a credential from its user in Keystone. One that is gone already
// is a success.
type Revoke func(ctx context.Context, userID, credentialID string) error

// DiscardCredential revokes and deletes one that never came into force.
func (s *Store) DiscardCredential(ctx context.Context, clusterID string, epoch int, revoke Revoke) error {
	return s.deleteCredentials(ctx, clusterID, epoch, epoch, revoke, postgres.SecretPending)
}

// RetireCredentials revokes and deletes what was replaced by that epoch and
// those after it, and what rotations before it left when they failed.
func (s *Store) RetireCredentials(ctx context.Context, clusterID string, olderThan int, revoke Revoke) error {
	return s.deleteCredentials(ctx, clusterID, 1, olderThan-1, revoke, postgres.SecretRetiring, postgres.SecretPending)
}

// DeleteCredentials revokes and deletes every credential of the cluster. It may
// run any number of times; what could be revoked stays so when it fails.
func (s *Store) DeleteCredentials(ctx context.Context, clusterID string, revoke Revoke) error {
	return s.deleteCredentials(ctx, clusterID, 1, math.MaxInt32, revoke,
		postgres.SecretPending, postgres.SecretActive, postgres.SecretRetiring)
}

func (s *Store) deleteCredentials(ctx context.Context, clusterID string, from, to int, revoke Revoke, states ...string) error {
	marked, err := s.secrets.Credentials().MarkDeleting(ctx, clusterID, from, to, states...)
	if err != nil {
		return err
	}
	var errs []error
	for _, row := range marked {
		if row.CredentialID != nil {
			if err := revoke(ctx, row.UserID, *row.CredentialID); err != nil {
				errs = append(errs, fmt.Errorf("revoke application credential %s of cluster %s: %w", *row.CredentialID, clusterID, err))
				continue
			}
		}
		if err := s.secrets.Credentials().Remove(ctx, row); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (s *Store) resealCredentials(ctx context.Context, limit int) (int, error) {
	rows, err := s.secrets.Credentials().SealedOtherwise(ctx, s.ring.current, limit)
	if err != nil {
		return 0, err
	}
	done := 0
	var errs []error
	for _, row := range rows {
		sealed, err := s.ring.reseal(credentialPlace(row), row.SealedSecret, row.KeyID)
		if err == nil {
			err = s.secrets.Credentials().Reseal(ctx, row, sealed, s.ring.current)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		done++
	}
	return done, errors.Join(errs...)
}
