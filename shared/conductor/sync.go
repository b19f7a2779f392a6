package conductor

import (
	"context"
	"errors"
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

// What was seen of many clusters is stored in one transaction, and few of these
// run side by side: requests come first.
const (
	together    = 50
	storeAtOnce = 2
)

// missesToExplain is how many looks in a row must fail before the user is told.
const missesToExplain = 3

// sight is what was seen of a cluster, beside its rows as they were then.
type sight struct {
	was    *Subject
	tick   postgres.Tick
	result driver.Result
}

// Sync looks at the clusters and stores what has become of them. One that
// cannot be looked at does not keep the others; an error means that the
// database could not be read.
func (c *Conductor) Sync(ctx context.Context, clusterIDs []string) error {
	clusters, err := c.DB.Clusters.Many(ctx, clusterIDs)
	if err != nil {
		return err
	}
	subjects, err := loadMany(ctx, &c.DB.Store, clusters)
	if err != nil {
		return err
	}
	ticks, err := c.DB.Ticks.Of(ctx, clusterIDs)
	if err != nil {
		return err
	}
	byDriver := map[string][]*Subject{}
	for _, s := range subjects {
		byDriver[s.Cluster.Driver] = append(byDriver[s.Cluster.Driver], s)
	}
	var sights []sight
	for name, list := range byDriver {
		for i, result := range c.observe(ctx, name, list) {
			l := sight{was: list[i], tick: ticks[list[i].Cluster.UUID], result: result}
			if result.Err != nil {
				slog.WarnContext(ctx, "observe cluster", "cluster", l.was.Cluster.UUID, "misses", l.tick.SyncMisses+1, "err", result.Err)
			}
			if l.news() {
				sights = append(sights, l)
			}
		}
	}
	var group errgroup.Group
	group.SetLimit(storeAtOnce)
	for some := range slices.Chunk(sights, together) {
		group.Go(func() error {
			c.storeSights(ctx, some)
			return nil
		})
	}
	return group.Wait()
}

// loadMany is load for many clusters, in one statement for each table.
func loadMany(ctx context.Context, s *postgres.Store, clusters []magnum.Cluster) ([]*Subject, error) {
	clusterIDs, templateIDs := make([]string, len(clusters)), make([]string, len(clusters))
	for i, k := range clusters {
		clusterIDs[i], templateIDs[i] = k.UUID, k.ClusterTemplateID
	}
	slices.Sort(templateIDs)
	templates, err := s.Templates.Many(ctx, slices.Compact(templateIDs))
	if err != nil {
		return nil, err
	}
	groups, err := s.NodeGroups.OfClusters(ctx, clusterIDs)
	if err != nil {
		return nil, err
	}
	open, err := s.Operations.OpenOf(ctx, clusterIDs)
	if err != nil {
		return nil, err
	}
	subjects := make([]*Subject, len(clusters))
	for i, k := range clusters {
		subjects[i] = &Subject{Cluster: k, Template: templates[k.ClusterTemplateID], NodeGroups: groups[k.UUID], Open: counting(open[k.UUID])}
	}
	return subjects, nil
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

// news tells whether there is anything to write down.
func (l sight) news() bool {
	if l.result.Err != nil || l.tick.SyncMisses > 0 {
		return true
	}
	after := l.was.clone()
	seen := after.See(l.result.Observation)
	return len(seen.Ended)+len(seen.Resumed) > 0 || changed(l.was, after)
}

// current tells whether the cluster is the version that was looked at, with the
// same operations in the same states: else the observation may be older than what
// a request has since asked for (PB-23).
func (l sight) current(s *Subject) bool {
	return s.Cluster.Version == l.was.Cluster.Version && slices.EqualFunc(s.Open, l.was.Open, func(a, b magnum.Operation) bool {
		return a.ID == b.ID && a.State == b.State && a.Fence == b.Fence
	})
}

// storeSights writes down what was seen of some clusters. What cannot be written
// of one of them does not keep the others.
func (c *Conductor) storeSights(ctx context.Context, sights []sight) {
	err := c.storeTogether(ctx, sights)
	switch {
	case err == nil || ctx.Err() != nil || errors.Is(err, postgres.ErrMoved) && len(sights) == 1:
	case len(sights) == 1 || fault.Transient(err):
		slog.ErrorContext(ctx, "store observations", "cluster", sights[0].was.Cluster.UUID, "clusters", len(sights), "err", err)
	default:
		for i := range sights {
			c.storeSights(ctx, sights[i:i+1])
		}
	}
}

// storeTogether leaves out clusters that somebody else is changing, or has
// changed since they were looked at: the next tick looks again.
func (c *Conductor) storeTogether(ctx context.Context, sights []sight) error {
	byID, ids := make(map[string]sight, len(sights)), make([]string, len(sights))
	for i, l := range sights {
		ids[i] = l.was.Cluster.UUID
		byID[ids[i]] = l
	}
	now, publish := c.Now(), false
	err := c.DB.InTx(ctx, func(tx *postgres.Store) error {
		clusters, err := tx.Clusters.LockAll(ctx, ids)
		if err != nil {
			return err
		}
		subjects, err := loadMany(ctx, tx, clusters)
		if err != nil {
			return err
		}
		publish = false
		for _, s := range subjects {
			l := byID[s.Cluster.UUID]
			if !l.current(s) {
				continue
			}
			if l.result.Err != nil {
				err = c.miss(ctx, tx, s, l, now)
			} else {
				var posted bool
				posted, err = c.see(ctx, tx, s, l, now)
				publish = publish || posted
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && publish {
		c.Published(ctx)
	}
	return err
}

// see writes down what was seen of a locked cluster. It tells whether events
// wait for the commit.
func (c *Conductor) see(ctx context.Context, tx *postgres.Store, s *Subject, l sight, now time.Time) (bool, error) {
	before := s.clone()
	seen := s.See(l.result.Observation)
	for _, o := range seen.Resumed {
		if err := c.resume(ctx, tx, s, o, now); err != nil {
			return false, err
		}
	}
	if len(seen.Ended) == 0 {
		if err := c.store(ctx, tx, before, s, now); err != nil {
			return false, err
		}
		return len(seen.Resumed) > 0, c.schedule(ctx, tx, s, 0, l.tick.Failure, now)
	}
	if err := c.end(ctx, tx, before, s, seen.Ended, l.tick.Failure, now); err != nil {
		return false, err
	}
	for _, uuid := range seen.Removed {
		if err := tx.NodeGroups.Delete(ctx, uuid); err != nil {
			return false, err
		}
	}
	return true, nil
}

// resume hands an operation that waited back to its function.
func (c *Conductor) resume(ctx context.Context, tx *postgres.Store, s *Subject, o magnum.Operation, now time.Time) error {
	if err := tx.Operations.Move(ctx, o, postgres.Move{To: magnum.Pending, DueAt: now}, now); err != nil {
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
func (c *Conductor) miss(ctx context.Context, tx *postgres.Store, s *Subject, l sight, now time.Time) error {
	misses := l.tick.SyncMisses + 1
	if misses >= missesToExplain && s.Cluster.Status.InProgress() {
		before := s.clone()
		reason := "Waiting: " + fault.Text(l.result.Err)
		s.Cluster.StatusReason = &reason
		if err := c.store(ctx, tx, before, s, now); err != nil {
			return err
		}
	}
	return c.schedule(ctx, tx, s, misses, l.tick.Failure, now)
}
