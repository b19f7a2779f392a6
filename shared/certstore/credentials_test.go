package certstore

import (
	"context"
	"errors"
	"slices"
	"testing"

	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/postgres"
)

func (f *fixture) put(t *testing.T, epoch int, secret string) {
	t.Helper()
	err := f.db.InTx(t.Context(), func(tx *postgres.Store) error {
		return f.PutCredential(t.Context(), tx.Secrets, f.cluster, "user", driver.Credential{Epoch: epoch, ID: secret + "-id", Secret: secret})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCredentialRotation(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Database)
	if _, err := f.Credential(t.Context(), f.cluster, Active); !fault.Is(err, fault.NotFound) {
		t.Errorf("none: %v", err)
	}
	f.put(t, 1, "one")
	f.put(t, 2, "two")
	if n, err := NextCredentialEpoch(t.Context(), f.db.Secrets, f.cluster); n != 3 || err != nil {
		t.Errorf("next epoch %d, %v", n, err)
	}
	if c, err := f.Credential(t.Context(), f.cluster, Active); err != nil || c.Secret != "one" || c.ID != "one-id" || c.Epoch != 1 {
		t.Errorf("in force is epoch %d, %v", c.Epoch, err)
	}
	if c, err := f.Credential(t.Context(), f.cluster, 2); err != nil || c.Secret != "two" {
		t.Errorf("epoch 2: %v", err)
	}
	for range 2 {
		if err := ActivateCredential(t.Context(), f.db.Secrets, f.cluster, 2); err != nil {
			t.Fatal(err)
		}
	}
	if err := ActivateCredential(t.Context(), f.db.Secrets, f.cluster, 7); !fault.Is(err, fault.Conflict) {
		t.Errorf("an epoch that is not there: %v", err)
	}
	if c, err := f.Credential(t.Context(), f.cluster, Active); err != nil || c.Secret != "two" {
		t.Errorf("in force is epoch %d, %v", c.Epoch, err)
	}

	var revoked []string
	refuse := true
	revoke := func(_ context.Context, userID, id string) error {
		if refuse {
			return fault.New(fault.Unavailable, "Keystone does not answer.")
		}
		revoked = append(revoked, userID+"/"+id)
		return nil
	}
	if err := f.RetireCredentials(t.Context(), f.cluster, 2, revoke); !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
	refuse = false
	for range 2 {
		if err := f.RetireCredentials(t.Context(), f.cluster, 2, revoke); err != nil {
			t.Fatal(err)
		}
	}
	f.put(t, 3, "three")
	for range 2 {
		if err := f.DiscardCredential(t.Context(), f.cluster, 3, revoke); err != nil {
			t.Fatal(err)
		}
	}
	f.put(t, 4, "four")
	for range 2 {
		if err := f.DeleteCredentials(t.Context(), f.cluster, revoke); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"user/one-id", "user/three-id", "user/two-id", "user/four-id"}; !slices.Equal(revoked[:2], want[:2]) || len(revoked) != 4 {
		t.Errorf("revoked %v, want %v", revoked, want)
	}
}

func TestPutCredentialRollsBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Database)
	undo := errors.New("undo")
	err := f.db.InTx(t.Context(), func(tx *postgres.Store) error {
		return errors.Join(f.PutCredential(t.Context(), tx.Secrets, f.cluster, "user", driver.Credential{Epoch: 1, ID: "i", Secret: "s"}), undo)
	})
	if !errors.Is(err, undo) {
		t.Fatal(err)
	}
	if _, err := f.Credential(t.Context(), f.cluster, Active); !fault.Is(err, fault.NotFound) {
		t.Errorf("the credential stayed: %v", err)
	}
}
