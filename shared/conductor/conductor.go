// Package conductor is the frame of every operation. One half runs in the
// request: a wish is checked against the locked cluster and recorded with its
// events in one transaction (Accept). The other half runs in the event
// functions: claim, lease, steps, retry, and in the ticks: observe, finish,
// expire. What an operation does is in its function's own folder.
package conductor

import (
	"time"

	"carafe/shared/certstore"
	"carafe/shared/driver"
	"carafe/shared/events"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
	"carafe/shared/telemetry"
)

// Settings are the conductor's part of the environment.
type Settings struct {
	// UpdateTimeout ends updates, resizes, upgrades, node group operations and
	// rotations that have not come to an end; 0: never.
	UpdateTimeout time.Duration `envconfig:"CARAFE_UPDATE_TIMEOUT" default:"60m"`
	// DeleteTimeout is the same for deletes. A delete can be asked for again.
	DeleteTimeout time.Duration `envconfig:"CARAFE_DELETE_TIMEOUT" default:"60m"`
	// Lease is how long a handler may stay silent before another takes over.
	Lease time.Duration `envconfig:"CARAFE_LEASE" default:"60s"`
	// StepTimeout bounds one step of an operation, driver calls included.
	StepTimeout time.Duration `envconfig:"CARAFE_STEP_TIMEOUT" default:"45s"`
	// SyncInterval is the time between two looks at a cluster in progress.
	SyncInterval time.Duration `envconfig:"CARAFE_SYNC_INTERVAL" default:"10s"`
	// HealthInterval is the time between two probes of a cluster; 0 or less: none.
	// magnum.conf [kubernetes] health_polling_interval, there in whole seconds.
	HealthInterval time.Duration `envconfig:"CARAFE_HEALTH_INTERVAL" default:"60s"`
	// ObserveTimeout bounds one look at one cluster.
	ObserveTimeout time.Duration `envconfig:"CARAFE_OBSERVE_TIMEOUT" default:"20s"`
	// Retention is how long finished operations and published events are kept.
	Retention time.Duration `envconfig:"CARAFE_HISTORY_RETENTION" default:"720h"`
	// Region is the last part of the source of all events.
	Region string `envconfig:"CARAFE_REGION" default:"RegionOne"`
}

// Conductor carries what the frame needs. One serves all functions of a process.
type Conductor struct {
	DB      *postgres.DB
	Drivers *driver.Registry
	Secrets *certstore.Store
	// Delegation is nil without Keystone.
	Delegation Delegation
	Publisher  events.Publisher
	Settings   Settings
	Now        func() time.Time
	NewID      func() string // a UUID v7
	Owner      string        // names this process in leases
	// Telemetry counts what ends, is tried again or is lost; nil: nothing is counted.
	Telemetry *telemetry.Telemetry
}

// Source is the source attribute of this installation's events.
func (c *Conductor) Source() string { return "/container-infra/" + c.Settings.Region }

// deadline is when an operation of the kind must have ended; nil: never.
func (c *Conductor) deadline(kind magnum.OperationKind, cluster magnum.Cluster, now time.Time) *time.Time {
	var limit time.Duration
	switch kind {
	case magnum.ClusterCreate:
		if cluster.CreateTimeout != nil {
			limit = time.Duration(*cluster.CreateTimeout) * time.Minute
		}
	case magnum.ClusterDelete, magnum.FederationDelete:
		limit = c.Settings.DeleteTimeout
	default:
		limit = c.Settings.UpdateTimeout
	}
	if limit <= 0 {
		return nil
	}
	at := now.Add(limit)
	return &at
}
