package postgres_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carafe/shared/magnum"
	"carafe/shared/pgtest"
	"carafe/shared/telemetry"
)

func TestStateCountsWhatThereIsAndWhatIsLate(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	empty := telemetry.State{Clusters: map[string]int64{}, Health: map[string]int64{}, NodeGroups: map[string]int64{}}
	if got, err := db.State(t.Context(), now); err != nil || !cmp.Equal(got, empty) {
		t.Fatalf("of nothing: %v\n%s", err, cmp.Diff(empty, got))
	}
	ct := newTemplate(t, db, nil)
	newCluster(t, db, ct, nil)
	late := newCluster(t, db, ct, func(c *magnum.Cluster) {
		c.Status = magnum.CreateInProgress
	})
	if err := db.Ticks.ScheduleSync(t.Context(), late.UUID, ptr(now.Add(-7*time.Second)), 0, nil); err != nil {
		t.Fatal(err)
	}
	got, err := db.State(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	want := telemetry.State{
		Clusters:   map[string]int64{"CREATE_COMPLETE": 1, "CREATE_IN_PROGRESS": 1},
		Health:     map[string]int64{"UNKNOWN": 2}, // none has been probed yet
		NodeGroups: map[string]int64{"CREATE_COMPLETE": 2, "CREATE_IN_PROGRESS": 2},
		SyncDue:    1, SyncLag: 7 * time.Second,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
