// Package healthmonitor is the function that looks at the health of clusters,
// every minute (spec/conductor.md §3.4): a driver that knows it is asked, the
// others' API servers are probed. What it finds has a life of its own: it moves
// neither the lifecycle status nor updated_at (PB-52).
package healthmonitor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"golang.org/x/sync/errgroup"

	"carafe/shared/certstore"
	"carafe/shared/conductor"
	"carafe/shared/driver"
	"carafe/shared/events"
	"carafe/shared/fault"
	"carafe/shared/function"
	"carafe/shared/kubeprobe"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
)

// Config is the environment of healthmonitor. How often a cluster is looked at
// is CARAFE_HEALTH_INTERVAL, of the conductor.
type Config struct {
	// Batch is how many clusters are read together.
	Batch int32 `envconfig:"CARAFE_HEALTH_BATCH" default:"200"`
	// AtOnce bounds the clusters that one process looks at side by side. Black
	// holes hold a place for the connect timeout, so it should be well above a
	// hundredth of the clusters.
	AtOnce int `envconfig:"CARAFE_HEALTH_AT_ONCE" default:"256"`
	// Misses is how many probes in a row must fail to reach a cluster before its
	// health is no longer known.
	Misses int `envconfig:"CARAFE_HEALTH_MISSES" default:"3"`
	// FanOut is how many due clusters one tick looks at itself; beyond them the
	// rest leaves as magnum.conductor.health events, one for each batch, for other
	// instances. 0: never.
	FanOut int `envconfig:"CARAFE_HEALTH_FAN_OUT" default:"0"`

	Probe kubeprobe.Settings
}

// Validate refuses what would never look at anything.
func (c *Config) Validate() error {
	var errs []error
	if c.Batch < 1 {
		errs = append(errs, fmt.Errorf("CARAFE_HEALTH_BATCH: %d is not positive", c.Batch))
	}
	if c.AtOnce < 1 {
		errs = append(errs, fmt.Errorf("CARAFE_HEALTH_AT_ONCE: %d is not positive", c.AtOnce))
	}
	return errors.Join(errs...)
}

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "healthmonitor", Kind: function.Cron, Build: build}
}

func build(_ context.Context, p *function.Platform) (http.Handler, error) {
	var c Config
	if err := function.ReadConfig(&c); err != nil {
		return nil, err
	}
	m := &monitor{config: c, conductor: p.Conductor, db: p.DB, secrets: p.Secrets, drivers: p.Drivers,
		prober: kubeprobe.New(c.Probe), now: p.Now, newID: p.NewID}
	return events.Handler(m.handle, events.Tick, events.Health), nil
}

type monitor struct {
	config    Config
	conductor *conductor.Conductor
	db        *postgres.DB
	secrets   *certstore.Store
	drivers   *driver.Registry
	prober    *kubeprobe.Prober
	now       func() time.Time
	newID     func() string
}

// Batch is the data of a magnum.conductor.health event.
type Batch struct {
	ClusterIDs []string `json:"cluster_uuids"`
}

func (m *monitor) handle(ctx context.Context, e event.Event) error {
	var group errgroup.Group
	group.SetLimit(m.config.AtOnce)
	var err error
	if e.Type() == events.Tick {
		err = m.tick(ctx, &group)
	} else {
		err = m.batch(ctx, &group, e)
	}
	_ = group.Wait() // nothing returns an error: one cluster never keeps the others
	m.conductor.Published(ctx)
	return err
}

func (m *monitor) batch(ctx context.Context, group *errgroup.Group, e event.Event) error {
	var b Batch
	if err := e.DataAs(&b); err != nil || len(b.ClusterIDs) == 0 {
		return fault.Wrap(fault.Invalid, err, "the data of a %s event must be {cluster_uuids: [...]}", e.Type())
	}
	return m.look(ctx, group, b.ClusterIDs)
}

// tick takes batch after batch of what was due when it began, until nothing is or
// its time is over; the next tick takes the rest. A batch does not wait for the
// one before: a black hole delays nobody but itself.
func (m *monitor) tick(ctx context.Context, group *errgroup.Group) error {
	now, interval := m.now(), m.conductor.Settings.HealthInterval
	if interval <= 0 {
		return nil
	}
	// Ticks come a little early or late: what is due before the next one is half
	// way here is due now, or it would be looked at every other time.
	due := now.Add(interval / 2)
	margin := m.config.Probe.Timeout + 5*time.Second // what has begun must be written
	for done := 0; ; {
		if d, ok := ctx.Deadline(); ok && time.Until(d) < margin {
			return nil
		}
		ids, err := m.db.Ticks.ClaimHealth(ctx, due, now.Add(interval), m.config.Batch)
		if err != nil || len(ids) == 0 {
			return err
		}
		if m.config.FanOut > 0 && done >= m.config.FanOut {
			err = m.fanOut(ctx, ids, now)
		} else {
			err = m.look(ctx, group, ids)
		}
		if err != nil {
			return err
		}
		done += len(ids)
	}
}

// fanOut leaves a batch to whoever gets its event. Should it get lost, the
// clusters are due again one interval later.
func (m *monitor) fanOut(ctx context.Context, ids []string, now time.Time) error {
	data, err := json.Marshal(Batch{ClusterIDs: ids})
	if err != nil {
		return fmt.Errorf("encode a batch: %w", err)
	}
	return m.db.Events.Add(ctx, magnum.Event{ID: m.newID(), Type: events.Health, Source: m.conductor.Source(),
		Subject: ids[0], Data: data, CreatedAt: now})
}

// patient is a cluster to look at, with all that the verdict needs.
type patient struct {
	subject *conductor.Subject
	misses  int
}

// load reads many clusters with a handful of statements. One that is gone is left out.
func (m *monitor) load(ctx context.Context, ids []string) ([]patient, error) {
	clusters, err := m.db.Clusters.Many(ctx, ids)
	if err != nil {
		return nil, err
	}
	var templateIDs []string
	for _, c := range clusters {
		templateIDs = append(templateIDs, c.ClusterTemplateID)
	}
	slices.Sort(templateIDs)
	templates, err := m.db.Templates.Many(ctx, slices.Compact(templateIDs))
	if err != nil {
		return nil, err
	}
	groups, err := m.db.NodeGroups.OfClusters(ctx, ids)
	if err != nil {
		return nil, err
	}
	ticks, err := m.db.Ticks.Of(ctx, ids)
	if err != nil {
		return nil, err
	}
	patients := make([]patient, len(clusters))
	for i, c := range clusters {
		patients[i] = patient{misses: ticks[c.UUID].HealthMisses, subject: &conductor.Subject{
			Cluster: c, Template: templates[c.ClusterTemplateID], NodeGroups: groups[c.UUID]}}
	}
	return patients, nil
}
