package carotate

import (
	"bytes"
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
	"carafe/shared/function"
	"carafe/shared/functiontest"
	"carafe/shared/identity"
	"carafe/shared/magnum"
	"carafe/shared/pki"
	"carafe/shared/postgres"
)

// accepted records the wish as the API does.
func accepted(t *testing.T, b *functiontest.Bench) magnum.Operation {
	t.Helper()
	err := b.Conductor.Accept(t.Context(), identity.Caller{UserID: "u1", ProjectID: "p1"}, b.Cluster.UUID,
		func(ctx context.Context, tx *postgres.Store, s *conductor.Subject) (*conductor.Wish, error) {
			epoch, err := certstore.NextEpoch(ctx, tx.Secrets, b.Cluster.UUID)
			if err != nil {
				return nil, err
			}
			return &conductor.Wish{Kind: magnum.CARotate, Arguments: magnum.RotateArguments{Epoch: epoch}},
				s.Begin(ctx, tx, magnum.UpdateInProgress, b.Clock)
		})
	if err != nil {
		t.Fatal(err)
	}
	return b.Operation(t, b.Cluster.UUID)
}

func served(t *testing.T, b *functiontest.Bench) string {
	t.Helper()
	text, err := b.Secrets.CA(t.Context(), b.Cluster.UUID, pki.Kubernetes)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTwoPhases(t *testing.T) {
	t.Parallel()
	b := functiontest.New(t)
	old := b.Certify(t, b.Cluster.UUID)
	var installed []driver.Certificates
	b.Driver.OnRotateCA = func(c driver.Cluster) error {
		installed = append(installed, *c.Certificates)
		if len(installed) == 1 {
			return fault.New(fault.Unavailable, "The cluster does not answer.")
		}
		return nil
	}
	o := accepted(t, b)
	deliver := func() {
		t.Helper()
		if status := b.Deliver(t, Function(), events.CARotate, o); status != http.StatusNoContent {
			t.Fatalf("delivery answered %d", status)
		}
	}
	deliver()
	if c := b.Reload(t, b.Cluster.UUID); c.StatusReason == nil || *c.StatusReason != "Waiting: The cluster does not answer." {
		t.Errorf("reason %v", c.StatusReason)
	}
	b.Clock = b.Clock.Add(time.Minute)
	deliver()
	deliver() // a duplicate
	if len(installed) != 2 || installed[0].Epoch != 2 || !bytes.Equal(installed[0].Etcd.Key, installed[1].Etcd.Key) {
		t.Fatalf("the driver was called %d times", len(installed))
	}
	if served(t, b) != string(old.Kubernetes.Certificate) {
		t.Error("the new CA is served before the driver has installed it")
	}
	b.Driver.Observation = driver.Observation{Progress: driver.Complete}
	b.Clock = b.Clock.Add(time.Minute)
	if err := b.Conductor.Sync(t.Context(), []string{b.Cluster.UUID}); err != nil {
		t.Fatal(err)
	}
	if c := b.Reload(t, b.Cluster.UUID); c.Status != magnum.UpdateInProgress {
		t.Errorf("%s before the new CA is in force", c.Status)
	}
	deliver()
	if served(t, b) != string(installed[1].Kubernetes.Certificate) {
		t.Error("the new CA is not served")
	}
	if c := b.Reload(t, b.Cluster.UUID); c.Status != magnum.UpdateComplete || c.StatusReason != nil {
		t.Errorf("%s %v", c.Status, c.StatusReason)
	}
	if got := b.Events(t, b.Cluster.UUID); !slices.Equal(got, []string{"magnum.cluster.update pending", "magnum.cluster.update success"}) {
		t.Errorf("events %v", got)
	}
	if n, err := b.Secrets.Sweep(t.Context(), 10); n != 0 || err != nil {
		t.Errorf("swept %d within the grace, %v", n, err)
	}
	b.Clock = b.Clock.Add(25 * time.Hour)
	if n, err := b.Secrets.Sweep(t.Context(), 10); n != 1 || err != nil {
		t.Errorf("swept %d after the grace, %v", n, err)
	}
}

// The leaves that are older than the wish are the driver's to renew; the authorities stay.
func TestLeaf(t *testing.T) {
	t.Parallel()
	b := functiontest.New(t)
	old := b.Certify(t, b.Cluster.UUID)
	wished := b.Clock
	err := b.Conductor.Accept(t.Context(), identity.Caller{UserID: "u1", ProjectID: "p1"}, b.Cluster.UUID,
		func(ctx context.Context, tx *postgres.Store, s *conductor.Subject) (*conductor.Wish, error) {
			return &conductor.Wish{Kind: magnum.CARotate, Arguments: magnum.RotateArguments{Leaf: true}}, s.Begin(ctx, tx, magnum.UpdateInProgress, b.Clock)
		})
	if err != nil {
		t.Fatal(err)
	}
	b.Clock = b.Clock.Add(time.Minute)
	b.Driver.OnRotateCA = func(driver.Cluster) error { return fault.New(fault.Invalid, "Not this.") }
	b.Driver.OnRotateLeaf = func(at time.Time) error {
		if !at.Equal(wished) {
			return fault.New(fault.Invalid, "Those from before %s, not %s.", at, wished)
		}
		return nil
	}
	deliver := func() {
		t.Helper()
		if status := b.Deliver(t, Function(), events.CARotate, b.Operation(t, b.Cluster.UUID)); status != http.StatusNoContent {
			t.Fatalf("delivery answered %d", status)
		}
	}
	deliver()
	b.Driver.Observation = driver.Observation{Progress: driver.Complete}
	b.Clock = b.Clock.Add(time.Minute)
	if err := b.Conductor.Sync(t.Context(), []string{b.Cluster.UUID}); err != nil {
		t.Fatal(err)
	}
	deliver()
	if c := b.Reload(t, b.Cluster.UUID); c.Status != magnum.UpdateComplete || served(t, b) != string(old.Kubernetes.Certificate) {
		t.Errorf("%s %v", c.Status, c.StatusReason)
	}
}

func TestAFailureKeepsWhatIsInForce(t *testing.T) {
	t.Parallel()
	b := functiontest.New(t)
	old := b.Certify(t, b.Cluster.UUID)
	b.Driver.OnRotateCA = func(driver.Cluster) error { return fault.New(fault.Invalid, "The control plane is too old.") }
	o := accepted(t, b)
	if status := b.Deliver(t, Function(), events.CARotate, o); status != http.StatusNoContent {
		t.Fatalf("delivery answered %d", status)
	}
	c := b.Reload(t, b.Cluster.UUID)
	if c.Status != magnum.UpdateFailed || c.StatusReason == nil || *c.StatusReason != "The control plane is too old." {
		t.Errorf("%s %v", c.Status, c.StatusReason)
	}
	if served(t, b) != string(old.Kubernetes.Certificate) {
		t.Error("the CA in force changed")
	}
	b.Clock = b.Clock.Add(25 * time.Hour)
	if n, err := b.Secrets.Sweep(t.Context(), 10); n != 1 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	if _, err := b.Secrets.Load(t.Context(), b.Cluster.UUID, 2); !fault.Is(err, fault.NotFound) {
		t.Errorf("what the failed rotation made is still there: %v", err)
	}
	if served(t, b) != string(old.Kubernetes.Certificate) {
		t.Error("the CA in force was swept")
	}
}

// TestAnApplyBesideTheRotation has another operation apply the cluster while the
// driver still brings the new authorities about: it must not bring the old ones back.
func TestAnApplyBesideTheRotation(t *testing.T) {
	t.Parallel()
	b := functiontest.New(t)
	b.Certify(t, b.Cluster.UUID)
	if status := b.Deliver(t, Function(), events.CARotate, accepted(t, b)); status != http.StatusNoContent {
		t.Fatalf("delivery answered %d", status)
	}
	applied := 0
	b.Driver.OnApply = func(c driver.Cluster) error {
		applied = c.Certificates.Epoch
		return nil
	}
	err := b.Conductor.Accept(t.Context(), identity.Caller{UserID: "u1", ProjectID: "p1"}, b.Cluster.UUID,
		func(context.Context, *postgres.Store, *conductor.Subject) (*conductor.Wish, error) {
			return &conductor.Wish{Kind: magnum.ClusterUpgrade, Arguments: magnum.UpgradeArguments{}}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	upgrade := function.Function{Build: func(context.Context, *function.Platform) (http.Handler, error) {
		return b.Conductor.Handler(magnum.ClusterUpgrade, conductor.Apply()), nil
	}}
	if status := b.Deliver(t, upgrade, events.ClusterUpgrade, b.Operation(t, b.Cluster.UUID)); status != http.StatusNoContent {
		t.Fatalf("delivery answered %d", status)
	}
	if applied != 2 {
		t.Errorf("applied with the certificates of epoch %d, want 2", applied)
	}
}
