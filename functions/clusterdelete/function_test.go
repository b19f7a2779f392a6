package clusterdelete_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"carafe/functions/clusterdelete"
	"carafe/shared/conductor"
	"carafe/shared/driver"
	"carafe/shared/events"
	"carafe/shared/fault"
	"carafe/shared/functiontest"
	"carafe/shared/identity"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
)

// forgetter lets go at its third call.
type forgetter struct {
	*functiontest.Driver
	calls int
}

func (f *forgetter) Forget(context.Context, driver.Ref) ([]string, bool, error) {
	f.calls++
	return []string{"server 1"}, f.calls == 3, nil
}

// TestAForgetterIsGivenTime: the records stay until the driver has let go.
func TestAForgetterIsGivenTime(t *testing.T) {
	t.Parallel()
	b := functiontest.New(t)
	b.Certify(t, b.Cluster.UUID)
	f := &forgetter{Driver: b.Driver}
	b.Conductor.Drivers = driver.NewRegistry(driver.Selection{}, f)
	err := b.Conductor.Accept(t.Context(), identity.Caller{UserID: "operator"}, b.Cluster.UUID,
		func(ctx context.Context, tx *postgres.Store, s *conductor.Subject) (*conductor.Wish, error) {
			return conductor.WishDelete(ctx, tx, s, magnum.DeleteArguments{Force: true}, b.Now())
		})
	if err != nil {
		t.Fatal(err)
	}
	o := b.Operation(t, b.Cluster.UUID)
	for range 3 {
		if _, err := b.DB.Clusters.ByUUID(t.Context(), b.Cluster.UUID); err != nil {
			t.Fatalf("after %d calls: %v", f.calls, err)
		}
		if status := b.Deliver(t, clusterdelete.Function(), events.ClusterDelete, o); status != http.StatusNoContent {
			t.Fatalf("answered %d", status)
		}
		b.Clock = b.Clock.Add(time.Minute)
	}
	if _, err := b.DB.Clusters.ByUUID(t.Context(), b.Cluster.UUID); !fault.Is(err, fault.NotFound) || f.calls != 3 {
		t.Errorf("%d calls: %v", f.calls, err)
	}
}

// TestForcedDeleteDoesNotNeedTheDriver: the records and secrets of a cluster whose
// cloud is gone go at once; without force it waits for the driver (PB-29).
func TestForcedDeleteDoesNotNeedTheDriver(t *testing.T) {
	t.Parallel()
	for _, force := range []bool{true, false} {
		b := functiontest.New(t)
		b.Certify(t, b.Cluster.UUID)
		b.Driver.OnDelete = func(driver.Ref) error { return fault.New(fault.Unavailable, "the cloud is gone") }
		err := b.Conductor.Accept(t.Context(), identity.Caller{UserID: "operator"}, b.Cluster.UUID,
			func(ctx context.Context, tx *postgres.Store, s *conductor.Subject) (*conductor.Wish, error) {
				return conductor.WishDelete(ctx, tx, s, magnum.DeleteArguments{Force: force}, b.Now())
			})
		if err != nil {
			t.Fatal(err)
		}
		if status := b.Deliver(t, clusterdelete.Function(), events.ClusterDelete, b.Operation(t, b.Cluster.UUID)); status != http.StatusNoContent {
			t.Fatalf("force %t: answered %d", force, status)
		}
		_, err = b.DB.Clusters.ByUUID(t.Context(), b.Cluster.UUID)
		if gone := fault.Is(err, fault.NotFound); gone != force {
			t.Errorf("force %t: %v", force, err)
		}
		want := magnum.Pending
		if force {
			want = magnum.Succeeded
		}
		if o := b.Operation(t, b.Cluster.UUID); o.State != want {
			t.Errorf("force %t: the operation is %s", force, o.State)
		}
	}
}

// TestADeleteThatCannotBeDoneSaysSo (PB-29): what was accepted and cannot be done is
// DELETE_FAILED, with the reason, and told.
func TestADeleteThatCannotBeDoneSaysSo(t *testing.T) {
	t.Parallel()
	b := functiontest.New(t)
	b.Driver.OnDelete = func(driver.Ref) error { return fault.New(fault.Invalid, "The cloud does not let go.") }
	err := b.Conductor.Accept(t.Context(), identity.Caller{UserID: "u1"}, b.Cluster.UUID,
		func(ctx context.Context, tx *postgres.Store, s *conductor.Subject) (*conductor.Wish, error) {
			return conductor.WishDelete(ctx, tx, s, magnum.DeleteArguments{}, b.Now())
		})
	if err != nil {
		t.Fatal(err)
	}
	b.Deliver(t, clusterdelete.Function(), events.ClusterDelete, b.Operation(t, b.Cluster.UUID))
	c := b.Reload(t, b.Cluster.UUID)
	if c.Status != magnum.DeleteFailed || c.StatusReason == nil || *c.StatusReason != "The cloud does not let go." {
		t.Errorf("%s, %v", c.Status, c.StatusReason)
	}
	if told := b.Events(t, c.UUID); len(told) != 2 || told[1] != "magnum.cluster.delete failure" {
		t.Errorf("told: %v", told)
	}
}
