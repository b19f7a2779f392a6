package credentialrotate

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"carafe/shared/certstore"
	"carafe/shared/conductor"
	"carafe/shared/driver"
	"carafe/shared/events"
	"carafe/shared/fault"
	"carafe/shared/functiontest"
	"carafe/shared/identity"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
)

type keystone struct {
	revoked []string
	refuse  error
}

func (k *keystone) Delegate(context.Context, identity.Caller, string, string) (driver.Credential, error) {
	return driver.Credential{}, nil
}

func (k *keystone) Revoke(_ context.Context, userID, credentialID, _ string) error {
	if k.refuse != nil {
		return k.refuse
	}
	k.revoked = append(k.revoked, userID+"/"+credentialID)
	return nil
}

// bench has a cluster with the credential "one" of u1 in force, and "two" of u2
// waiting for its rotation.
func bench(t *testing.T) (*functiontest.Bench, *keystone, magnum.Operation) {
	t.Helper()
	b := functiontest.New(t)
	k := &keystone{}
	b.Conductor.Delegation, b.Driver.Description.Credential = k, true
	b.Certify(t, b.Cluster.UUID)
	if err := b.Secrets.PutCredential(t.Context(), b.DB.Secrets, b.Cluster.UUID, "u1", driver.Credential{Epoch: 1, ID: "one", Secret: "s1"}); err != nil {
		t.Fatal(err)
	}
	err := b.Conductor.Accept(t.Context(), identity.Caller{UserID: "u2", ProjectID: "p1"}, b.Cluster.UUID,
		func(ctx context.Context, tx *postgres.Store, _ *conductor.Subject) (*conductor.Wish, error) {
			return &conductor.Wish{Kind: magnum.CredentialRotate, Arguments: magnum.RotateArguments{Epoch: 2}},
				b.Secrets.PutCredential(ctx, tx.Secrets, b.Cluster.UUID, "u2", driver.Credential{Epoch: 2, ID: "two", Secret: "s2"})
		})
	if err != nil {
		t.Fatal(err)
	}
	return b, k, b.Operation(t, b.Cluster.UUID)
}

func inForce(t *testing.T, b *functiontest.Bench) string {
	t.Helper()
	c, err := b.Secrets.Credential(t.Context(), b.Cluster.UUID, certstore.Active)
	if err != nil {
		t.Fatal(err)
	}
	return c.ID
}

func TestRotation(t *testing.T) {
	t.Parallel()
	b, k, o := bench(t)
	var given []string
	b.Driver.OnRotateCredential = func(c driver.Cluster) error {
		given = append(given, c.Credential.ID)
		if len(given) == 1 {
			return fault.New(fault.Unavailable, "The cloud controller has not restarted yet.")
		}
		return nil
	}
	deliver := func() {
		t.Helper()
		if status := b.Deliver(t, Function(), events.CredentialRotate, o); status != http.StatusNoContent {
			t.Fatalf("delivery answered %d", status)
		}
	}
	deliver()
	if got := inForce(t, b); got != "one" || len(k.revoked) != 0 {
		t.Errorf("%s in force, revoked %v, before the driver is done", got, k.revoked)
	}
	if c := b.Reload(t, b.Cluster.UUID); c.Status != magnum.CreateComplete || c.StatusReason != nil {
		t.Errorf("%s %v: the lifecycle has been touched", c.Status, c.StatusReason)
	}
	b.Clock = b.Clock.Add(time.Minute)
	k.refuse = fault.New(fault.Unavailable, "Keystone does not answer.")
	deliver()
	if got := inForce(t, b); got != "two" {
		t.Errorf("%s in force", got)
	}
	b.Clock = b.Clock.Add(time.Minute)
	k.refuse = nil
	deliver()
	deliver() // a duplicate
	if !slices.Equal(given, []string{"two", "two"}) || !slices.Equal(k.revoked, []string{"u1/one"}) {
		t.Errorf("given %v, revoked %v", given, k.revoked)
	}
	if o := b.Operation(t, b.Cluster.UUID); o.State != magnum.Succeeded {
		t.Errorf("operation %s", o.State)
	}
	if c := b.Reload(t, b.Cluster.UUID); c.Status != magnum.CreateComplete || c.UserID != "u2" {
		t.Errorf("%s, owner %s", c.Status, c.UserID)
	}
	if got := b.Events(t, b.Cluster.UUID); !slices.Equal(got, []string{"magnum.cluster.update pending", "magnum.cluster.update success"}) {
		t.Errorf("events %v", got)
	}
}

func TestAFailureKeepsTheOldOne(t *testing.T) {
	t.Parallel()
	b, k, o := bench(t)
	b.Driver.OnRotateCredential = func(driver.Cluster) error { return fault.New(fault.Invalid, "The secret is locked.") }
	if status := b.Deliver(t, Function(), events.CredentialRotate, o); status != http.StatusNoContent {
		t.Fatalf("delivery answered %d", status)
	}
	if got := inForce(t, b); got != "one" || len(k.revoked) != 0 {
		t.Errorf("%s in force, revoked %v", got, k.revoked)
	}
	if c := b.Reload(t, b.Cluster.UUID); c.Status != magnum.CreateComplete || c.UserID != "u1" {
		t.Errorf("%s, owner %s", c.Status, c.UserID)
	}
	if o := b.Operation(t, b.Cluster.UUID); o.State != magnum.FailedOp || o.Error == nil || *o.Error != "The secret is locked." {
		t.Errorf("operation %s %v", o.State, o.Error)
	}
}

func TestARefusedRevocationIsANote(t *testing.T) {
	t.Parallel()
	b, k, o := bench(t)
	k.refuse = fault.New(fault.Forbidden, "Keystone says no.")
	if status := b.Deliver(t, Function(), events.CredentialRotate, o); status != http.StatusNoContent {
		t.Fatalf("delivery answered %d", status)
	}
	if o := b.Operation(t, b.Cluster.UUID); o.State != magnum.Succeeded || inForce(t, b) != "two" {
		t.Errorf("operation %s, %s in force", o.State, inForce(t, b))
	}
	k.refuse = nil
	if err := b.Secrets.DeleteCredentials(t.Context(), b.Cluster.UUID, func(ctx context.Context, user, id string) error {
		return k.Revoke(ctx, user, id, b.Cluster.UUID)
	}); err != nil {
		t.Fatal(err)
	}
	if slices.Sort(k.revoked); !slices.Equal(k.revoked, []string{"u1/one", "u2/two"}) {
		t.Errorf("revoked %v", k.revoked)
	}
}

// TestTheLastWishCounts has a rotation overtaken by another: what was made for it
// is revoked too.
func TestTheLastWishCounts(t *testing.T) {
	t.Parallel()
	b, k, first := bench(t)
	err := b.Conductor.Accept(t.Context(), identity.Caller{UserID: "u3", ProjectID: "p1"}, b.Cluster.UUID,
		func(ctx context.Context, tx *postgres.Store, _ *conductor.Subject) (*conductor.Wish, error) {
			return &conductor.Wish{Kind: magnum.CredentialRotate, Arguments: magnum.RotateArguments{Epoch: 3},
					Supersedes: func(o magnum.Operation) bool { return o.Kind == magnum.CredentialRotate }},
				b.Secrets.PutCredential(ctx, tx.Secrets, b.Cluster.UUID, "u3", driver.Credential{Epoch: 3, ID: "three", Secret: "s3"})
		})
	if err != nil {
		t.Fatal(err)
	}
	var given []string
	b.Driver.OnRotateCredential = func(c driver.Cluster) error { given = append(given, c.Credential.ID); return nil }
	for _, o := range []magnum.Operation{b.Operation(t, b.Cluster.UUID), first} {
		if status := b.Deliver(t, Function(), events.CredentialRotate, o); status != http.StatusNoContent {
			t.Fatalf("delivery answered %d", status)
		}
	}
	slices.Sort(k.revoked)
	if !slices.Equal(given, []string{"three"}) || !slices.Equal(k.revoked, []string{"u1/one", "u2/two"}) || inForce(t, b) != "three" {
		t.Errorf("given %v, revoked %v, %s in force", given, k.revoked, inForce(t, b))
	}
	if c := b.Reload(t, b.Cluster.UUID); c.UserID != "u3" {
		t.Errorf("owner %s", c.UserID)
	}
}
