package statussync

import (
	"strings"
	"testing"

	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/functiontest"
	"carafe/shared/magnum"
)

// PB-47: who waits is told why, once looking has failed three times in a row; the
// cluster goes on waiting.
func TestFailedLooksAreExplained(t *testing.T) {
	t.Parallel()
	b := functiontest.New(t)
	b.Driver.OnObserve = func(driver.Ref) (driver.Observation, error) {
		return driver.Observation{}, fault.New(fault.Forbidden, "The credential was revoked.")
	}
	c := b.Cluster
	c.Status = magnum.UpdateInProgress
	if err := b.DB.Clusters.Update(t.Context(), &c, b.Clock); err != nil {
		t.Fatal(err)
	}
	for look := 1; look <= 3; look++ {
		if err := b.Conductor.Sync(t.Context(), []string{c.UUID}); err != nil {
			t.Fatal(err)
		}
		now := b.Reload(t, c.UUID)
		explained := now.StatusReason != nil && strings.HasPrefix(*now.StatusReason, "Waiting: The credential was revoked.")
		if now.Status != magnum.UpdateInProgress || explained != (look == 3) {
			t.Errorf("after %d looks it is %s, %v", look, now.Status, now.StatusReason)
		}
	}
}
