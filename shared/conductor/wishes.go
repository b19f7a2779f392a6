package conductor

import (
	"context"
	"time"

	"carafe/shared/fault"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
)

// Allow refuses an operation in a status outside of its gate. doing is the verb
// of Magnum's sentence: "Resizing a cluster". A refusal is 400, the code of
// Magnum's NotSupported, as the calls that waited for its conductor have always
// answered (spec/conductor.md §2.2, PB-12).
func Allow(g magnum.Gate, s magnum.Status, doing string) error {
	if g.Allows(s) {
		return nil
	}
	return fault.New(fault.Invalid, `%s when status is "%s" is not supported.`, doing, s)
}

// Begin puts the cluster in progress and clears the reason of what was before
// (PB-24).
func (s *Subject) Begin(ctx context.Context, tx *postgres.Store, status magnum.Status, now time.Time) error {
	s.Cluster.Status, s.Cluster.StatusReason = status, nil
	return tx.Clusters.Update(ctx, &s.Cluster, now)
}

// BeginNodeGroup does the same for one group, with all that the caller changed.
func (s *Subject) BeginNodeGroup(ctx context.Context, tx *postgres.Store, n *magnum.NodeGroup, status magnum.Status, now time.Time) error {
	n.Status, n.StatusReason = status, nil
	return tx.NodeGroups.Update(ctx, n, now)
}

// WishResize changes the size of a group of the subject. A resize of the same
// group that has not ended is superseded: the last wish counts.
func WishResize(ctx context.Context, tx *postgres.Store, s *Subject, n *magnum.NodeGroup, kind magnum.OperationKind,
	a magnum.ResizeArguments, now time.Time) (*Wish, error) {
	a.PreviousNodeCount = n.NodeCount
	for _, o := range s.Open {
		// What was never applied never was: the size to go back to is the older one.
		if resizes(o, n.UUID) && !o.Done(ApplyStep) {
			if earlier, err := Arguments[magnum.ResizeArguments](o); err == nil {
				a.PreviousNodeCount = earlier.PreviousNodeCount
			}
		}
	}
	n.NodeCount = a.NodeCount
	if err := s.BeginNodeGroup(ctx, tx, n, magnum.UpdateInProgress, now); err != nil {
		return nil, err
	}
	if err := s.Begin(ctx, tx, magnum.UpdateInProgress, now); err != nil {
		return nil, err
	}
	group := n.UUID
	return &Wish{Kind: kind, NodeGroupID: &group, Arguments: a,
		Supersedes: func(o magnum.Operation) bool { return resizes(o, group) }}, nil
}

func resizes(o magnum.Operation, nodeGroupID string) bool {
	return (o.Kind == magnum.ClusterResize || o.Kind == magnum.ClusterUpdate) && o.NodeGroupID != nil && *o.NodeGroupID == nodeGroupID
}

// WishDelete deletes the cluster: everything else that goes on is over.
func WishDelete(ctx context.Context, tx *postgres.Store, s *Subject, a magnum.DeleteArguments, now time.Time) (*Wish, error) {
	for i := range s.NodeGroups {
		if err := s.BeginNodeGroup(ctx, tx, &s.NodeGroups[i], magnum.DeleteInProgress, now); err != nil {
			return nil, err
		}
	}
	if err := s.Begin(ctx, tx, magnum.DeleteInProgress, now); err != nil {
		return nil, err
	}
	// What failed before has no part in how the delete ends.
	if err := tx.Ticks.ScheduleBoth(ctx, s.Cluster.UUID, nil, 0, nil, nil); err != nil {
		return nil, err
	}
	return &Wish{Kind: magnum.ClusterDelete, Arguments: a, Supersedes: func(magnum.Operation) bool { return true }}, nil
}
