package healthmonitor

import (
	"context"
	"crypto/tls"
	"log/slog"
	"maps"

	"golang.org/x/sync/errgroup"

	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/kubeprobe"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
)

// allObserver is a HealthObserver that answers for many clusters with few calls.
type allObserver interface {
	HealthAll(ctx context.Context, refs []driver.Ref) ([]driver.Health, error)
}

// look starts the look at each of the clusters. It blocks while the group is
// full, and does not wait for the last ones.
func (m *monitor) look(ctx context.Context, group *errgroup.Group, ids []string) error {
	patients, err := m.load(ctx, ids)
	if err != nil {
		return err
	}
	together := map[string][]patient{}
	for _, p := range patients {
		d, err := m.drivers.Named(p.subject.Cluster.Driver)
		if err != nil {
			slog.WarnContext(ctx, "health not looked at", "cluster", p.subject.Cluster.UUID, "err", err)
			continue
		}
		switch d := d.(type) {
		case allObserver:
			together[p.subject.Cluster.Driver] = append(together[p.subject.Cluster.Driver], p)
		case driver.HealthObserver:
			group.Go(func() error { m.ask(ctx, d, p); return nil })
		default:
			group.Go(func() error { m.probe(ctx, p); return nil })
		}
	}
	for name, list := range together {
		d, _ := m.drivers.Named(name) // found above
		group.Go(func() error { m.askAll(ctx, d.(allObserver), list); return nil })
	}
	return nil
}

// quiet reports whether the cluster's health is nobody's business now: it is
// being made or unmade, or the healer inside of it reports by itself.
func quiet(c magnum.Cluster) bool {
	return c.Status == magnum.CreateInProgress || c.Status == magnum.DeleteInProgress || kubeprobe.Healed(c)
}

// ask asks a driver that knows.
func (m *monitor) ask(ctx context.Context, d driver.HealthObserver, p patient) {
	if quiet(p.subject.Cluster) {
		return
	}
	asking, cancel := context.WithTimeout(ctx, m.config.Probe.Timeout)
	defer cancel()
	h, err := d.Health(asking, p.subject.Ref())
	m.conclude(ctx, p, h, err)
}

// askAll asks a driver that knows of many.
func (m *monitor) askAll(ctx context.Context, d allObserver, all []patient) {
	var list []patient
	var refs []driver.Ref
	for _, p := range all {
		if !quiet(p.subject.Cluster) {
			list, refs = append(list, p), append(refs, p.subject.Ref())
		}
	}
	if len(list) == 0 {
		return
	}
	asking, cancel := context.WithTimeout(ctx, m.config.Probe.Timeout)
	defer cancel()
	answers, err := d.HealthAll(asking, refs)
	for i, p := range list {
		var h driver.Health
		if err == nil {
			h = answers[i]
		}
		m.conclude(ctx, p, h, err)
	}
}

// conclude stores a driver's answer; an error is a miss.
func (m *monitor) conclude(ctx context.Context, p patient, h driver.Health, err error) {
	if ctx.Err() != nil {
		return // it is we who gave up
	}
	missed := err != nil
	if missed {
		slog.WarnContext(ctx, "driver does not tell health", "cluster", p.subject.Cluster.UUID, "err", err)
		h = driver.Health{Status: magnum.UnknownHealth, Reasons: map[string]string{"api": fault.Text(err)}}
	}
	m.keep(ctx, p, h, missed)
}

// probe looks at a cluster from outside.
func (m *monitor) probe(ctx context.Context, p patient) {
	c := p.subject.Cluster
	wanted, known := kubeprobe.Decide(c)
	if !wanted {
		if known != nil {
			m.keep(ctx, p, *known, false)
		}
		return
	}
	target, err := m.target(ctx, c)
	var result kubeprobe.Result
	switch {
	case err == nil:
		result = m.prober.Probe(ctx, target)
	case fault.Is(err, fault.NotFound):
		result.Problem = fault.Text(err)
	default:
		// It is we who cannot look: that says nothing of the cluster.
		slog.ErrorContext(ctx, "health not looked at", "cluster", c.UUID, "err", err)
		return
	}
	if ctx.Err() != nil {
		return // it is we who gave up
	}
	h, missed := kubeprobe.Verdict(result, nodes(p))
	m.keep(ctx, p, h, missed)
}

// nodes is how many nodes the cluster should have; 0, uncounted, while they
// change.
func nodes(p patient) int {
	if p.subject.Cluster.Status.InProgress() {
		return 0
	}
	n := 0
	for _, g := range p.subject.NodeGroups {
		n += g.NodeCount
	}
	return n
}

func (m *monitor) target(ctx context.Context, c magnum.Cluster) (kubeprobe.Target, error) {
	access, err := m.secrets.Access(ctx, c.UUID)
	if err != nil {
		return kubeprobe.Target{}, err
	}
	client, err := tls.X509KeyPair(access.Client.Certificate, access.Client.Key)
	return kubeprobe.Target{Address: *c.APIAddress, CA: access.CA, Client: client}, err
}

// keep stores a verdict if it is new, and tells the world. A cluster that was
// not reached keeps the verdict it has until that has happened several times in
// a row (PB-51).
func (m *monitor) keep(ctx context.Context, p patient, h driver.Health, missed bool) {
	misses := 0
	if missed {
		misses = p.misses + 1
	}
	var err error
	if missed && misses < m.config.Misses || same(p.subject.Cluster, h) {
		// Nearly always: one statement, and the cluster's row stays untouched.
		err = m.db.Ticks.RecordProbe(ctx, p.subject.Cluster.UUID, misses, m.now())
	} else {
		err = m.db.InTx(ctx, func(tx *postgres.Store) error { return m.change(ctx, tx, p, h, misses) })
	}
	if err != nil {
		slog.ErrorContext(ctx, "store health", "cluster", p.subject.Cluster.UUID, "err", err)
	}
}

func same(c magnum.Cluster, h driver.Health) bool {
	return c.HealthStatus == h.Status && maps.Equal(c.HealthStatusReason, h.Reasons)
}

// change stores a new verdict together with the event that tells of it.
func (m *monitor) change(ctx context.Context, tx *postgres.Store, p patient, h driver.Health, misses int) error {
	now := m.now()
	changed, err := tx.Clusters.UpdateHealth(ctx, p.subject.Cluster.UUID, h.Status, h.Reasons)
	if err != nil {
		return err
	}
	if changed {
		told := *p.subject
		told.Cluster.HealthStatus, told.Cluster.HealthStatusReason = h.Status, h.Reasons
		if err := tx.Events.Add(ctx, m.conductor.HealthNotification(&told, now)); err != nil {
			return err
		}
	}
	return tx.Ticks.RecordProbe(ctx, p.subject.Cluster.UUID, misses, now)
}
