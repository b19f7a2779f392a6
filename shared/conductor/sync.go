package conductor

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
)

// observeAtOnce bounds the clusters that one process looks at side by side, for
// drivers that look at each by itself.
const observeAtOnce = 32

// missesToExplain is how many looks in a row must fail before the user is told.
const missesToExplain = 3

// Sync looks at the clusters and stores what has become of them. One that
// cannot be looked at does not keep the others; an error means that the
// database could not be read.
func (c *Conductor) Sync(ctx context.Context, clusterIDs []string) error {
	subjects, ticks, err := c.loadMany(ctx, clusterIDs)
	if err != nil {
		return err
	}
	byDriver := map[string][]*Subject{}
	for _, s := range subjects {
		byDriver[s.Cluster.Driver] = append(byDriver[s.Cluster.Driver], s)
	}
	var group errgroup.Group
	group.SetLimit(observeAtOnce)
	for name, list := range byDriver {
		results := c.observe(ctx, name, list)
		for i, s := range list {
			group.Go(func() error {
				if err := c.apply(ctx, s, ticks[s.Cluster.UUID], results[i]); err != nil && ctx.Err() == nil {
					slog.ErrorContext(ctx, "store observation", "cluster", s.Cluster.UUID, "err", err)
				}
				return nil
			})
		}
	}
	return group.Wait()
}

// loadMany reads many subjects with a handful of statements.
func (c *Conductor) loadMany(ctx context.Context, clusterIDs []string) ([]*Subject, map[string]postgres.Tick, error) {
	clusters, err := c.DB.Clusters.Many(ctx, clusterIDs)
	if err != nil {
		return nil, nil, err
	}
	var templateIDs []string
	for _, k := range clusters {
		templateIDs = append(templateIDs, k.ClusterTemplateID)
	}
	slices.Sort(templateIDs)
	templates, err := c.DB.Templates.Many(ctx, slices.Compact(templateIDs))
	if err != nil {
		return nil, nil, err
	}
	groups, err := c.DB.NodeGroups.OfClusters(ctx, clusterIDs)
	if err != nil {
		return nil, nil, err
	}
	open, err := c.DB.Operations.OpenOf(ctx, clusterIDs)
	if err != nil {
		return nil, nil, err
	}
	ticks, err := c.DB.Ticks.Of(ctx, clusterIDs)
	if err != nil {
		return nil, nil, err
	}
	subjects := make([]*Subject, len(clusters))
	for i, k := range clusters {
		subjects[i] = &Subject{Cluster: k, Template: templates[k.ClusterTemplateID], NodeGroups: groups[k.UUID], Open: counting(open[k.UUID])}
	}
	return subjects, ticks, nil
}

// observe asks the driver about all subjects; each result stands at its place.
func (c *Conductor) observe(ctx context.Context, name string, subjects []*Subject) []driver.Result {
	results := make([]driver.Result, len(subjects))
	d, err := c.Drivers.Named(name)
	if err != nil {
		for i := range results {
			results[i].Err = err
		}
		return results
	}
	refs := make([]driver.Ref, len(subjects))
	for i, s := range subjects {
		refs[i] = s.Ref()
	}
	if batch, ok := d.(driver.BatchObserver); ok {
		ctx, cancel := context.WithTimeout(ctx, c.Settings.ObserveTimeout)
		defer cancel()
		return batch.ObserveAll(ctx, refs)
	}
	var group errgroup.Group
	group.SetLimit(observeAtOnce)
	for i := range refs {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, c.Settings.ObserveTimeout)
			defer cancel()
			results[i].Observation, results[i].Err = d.Observe(ctx, refs[i])
			return nil
		})
	}
	_ = group.Wait() // the errors are in the results
	return results
}

// apply stores one result, if the cluster is still as it was when it was looked at.
func (c *Conductor) apply(ctx context.Context, was *Subject, tick postgres.Tick, result driver.Result) error {
	if result.Err != nil {
		return c.miss(ctx, was, tick, result.Err)
	}
	after := was.clone()
	seen := after.See(result.Observation)
	if len(seen.Ended)+len(seen.Resumed) == 0 && tick.SyncMisses == 0 && !changed(was, after) {
		return nil
	}
	now := c.Now()
	err := c.DB.InTx(ctx, func(tx *postgres.Store) error {
		s, current, err := c.lockAsSeen(ctx, tx, was)
		if err != nil || !current {
			return err
		}
		before := s.clone()
		seen := s.See(result.Observation)
		if err := c.store(ctx, tx, before, s, now); err != nil {
			return err
		}
		for _, o := range seen.Resumed {
			if err := c.resume(ctx, tx, s, o, now); err != nil {
				return err
			}
		}
		if len(seen.Ended) == 0 {
			return c.schedule(ctx, tx, s, 0, tick.Failure, now)
		}
		return c.endSeen(ctx, tx, s, seen, now)
	})
	if err == nil && len(seen.Ended)+len(seen.Resumed) > 0 {
		c.Published(ctx)
	}
	return err
}

// lockAsSeen locks the cluster and tells whether it is the version that was
// observed, with the same operations in the same states: else the observation
// may be older than what a request has since asked for (PB-23).
func (c *Conductor) lockAsSeen(ctx context.Context, tx *postgres.Store, was *Subject) (*Subject, bool, error) {
	cluster, err := tx.Clusters.Lock(ctx, was.Cluster.UUID)
	if fault.Is(err, fault.NotFound) {
		return nil, false, nil
	}
	if err != nil || cluster.Version != was.Cluster.Version {
		return nil, false, err
	}
	s, err := load(ctx, tx, cluster)
	if err != nil {
		return nil, false, err
	}
	current := slices.EqualFunc(s.Open, was.Open, func(a, b magnum.Operation) bool {
		return a.ID == b.ID && a.State == b.State && a.Fence == b.Fence
	})
	return s, current, nil
}

// endSeen ends operations and removes the groups that are gone.
func (c *Conductor) endSeen(ctx context.Context, tx *postgres.Store, s *Subject, seen Seen, now time.Time) error {
	if err := c.end(ctx, tx, s, seen.Ended, now); err != nil {
		return err
	}
	for _, uuid := range seen.Removed {
		if err := tx.NodeGroups.Delete(ctx, uuid); err != nil {
			return err
		}
	}
	return nil
}

// resume hands an operation that waited back to its function.
func (c *Conductor) resume(ctx context.Context, tx *postgres.Store, s *Subject, o magnum.Operation, now time.Time) error {
	if _, err := tx.Operations.Move(ctx, o, postgres.Move{To: magnum.Pending, DueAt: now}, now); err != nil {
		return err
	}
	for i := range s.Open {
		if s.Open[i].ID == o.ID {
			s.Open[i].State = magnum.Pending
		}
	}
	return tx.Events.Add(ctx, c.command(o, now))
}

// changed tells whether any row differs.
func changed(a, b *Subject) bool {
	return !sameCluster(a.Cluster, b.Cluster) || !slices.EqualFunc(a.NodeGroups, b.NodeGroups, sameNodeGroup)
}

// miss counts a look that failed. It never ends an operation: that is the
// deadline's to do.
func (c *Conductor) miss(ctx context.Context, was *Subject, tick postgres.Tick, cause error) error {
	now := c.Now()
	misses := tick.SyncMisses + 1
	slog.WarnContext(ctx, "observe cluster", "cluster", was.Cluster.UUID, "misses", misses, "err", cause)
	return c.DB.InTx(ctx, func(tx *postgres.Store) error {
		s, current, err := c.lockAsSeen(ctx, tx, was)
		if err != nil || !current {
			return err
		}
		if misses >= missesToExplain && s.Cluster.Status.InProgress() {
			before := s.clone()
			reason := "Waiting: " + fault.Text(cause)
			s.Cluster.StatusReason = &reason
			if err := c.store(ctx, tx, before, s, now); err != nil {
				return err
			}
		}
		return c.schedule(ctx, tx, s, misses, tick.Failure, now)
	})
}
