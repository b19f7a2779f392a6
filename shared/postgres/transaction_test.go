package postgres_test

import (
	"testing"

	"github.com/google/uuid"

	"carafe/shared/fault"
	"carafe/shared/magnum"
	"carafe/shared/pgtest"
	"carafe/shared/postgres"
)

// TestWhatWaitsInATransaction: statements whose result nobody waits for are sent
// before the next question and before the commit, and what goes wrong with them
// ends the transaction, all of it.
func TestWhatWaitsInATransaction(t *testing.T) {
	t.Parallel()
	const fine = fault.Kind(-1)
	db := pgtest.New(t)
	cluster := newCluster(t, db, newTemplate(t, db, nil), nil)
	note := func() magnum.Event {
		return magnum.Event{ID: uuid.NewString(), Type: "t", Source: "s", Subject: cluster.UUID, Outcome: magnum.OutcomePending, Data: []byte("{}"), CreatedAt: now}
	}
	for _, tc := range []struct {
		name string
		do   func(tx *postgres.Store, c magnum.Cluster) error
		want fault.Kind // fine: it is committed
		told int        // events of the cluster, by then
	}{
		{"WrittenBeforeAQuestion", func(tx *postgres.Store, c magnum.Cluster) error {
			c.Status = magnum.UpdateInProgress
			if err := tx.Clusters.Update(t.Context(), &c, now); err != nil {
				return err
			}
			seen, err := tx.Clusters.ByUUID(t.Context(), c.UUID)
			if err == nil && (seen.Status != magnum.UpdateInProgress || seen.Version != c.Version) {
				t.Errorf("in the transaction: %s of version %d", seen.Status, seen.Version)
			}
			return err
		}, fine, 1},
		{"ChangedByAnother", func(tx *postgres.Store, c magnum.Cluster) error {
			c.Version--
			return tx.Clusters.Update(t.Context(), &c, now)
		}, fault.Conflict, 1},
		{"AnOperationThatHasGoneOn", func(tx *postgres.Store, c magnum.Cluster) error {
			return tx.Operations.Move(t.Context(), magnum.Operation{ID: uuid.NewString(), State: magnum.Waiting}, postgres.Move{To: magnum.Succeeded}, now)
		}, fault.Conflict, 1},
		{"RefusedAfterwards", func(*postgres.Store, magnum.Cluster) error { return fault.New(fault.Forbidden, "no") }, fault.Forbidden, 1},
		{"WrittenBeforeTheCommit", func(*postgres.Store, magnum.Cluster) error { return nil }, fine, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			committed := 0
			err := db.InTx(t.Context(), func(tx *postgres.Store) error {
				c, err := tx.Clusters.Lock(t.Context(), cluster.UUID)
				if err != nil {
					return err
				}
				tx.OnCommit(func() { committed++ })
				if err := tx.Events.Add(t.Context(), note()); err != nil {
					return err
				}
				return tc.do(tx, c)
			})
			if tc.want == fine && (err != nil || committed != 1) || tc.want != fine && (!fault.Is(err, tc.want) || committed != 0) {
				t.Errorf("said %v; told of the commit %d times", err, committed)
			}
			if list, err := db.Events.OfCluster(t.Context(), cluster.UUID, 0, 10); err != nil || len(list) != tc.told {
				t.Errorf("%d events, %v", len(list), err)
			}
		})
	}
}
