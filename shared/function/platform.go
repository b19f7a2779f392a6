package function

import (
	"time"

	"carafe/shared/api"
	"carafe/shared/certstore"
	"carafe/shared/conductor"
	"carafe/shared/driver"
	"carafe/shared/events"
	"carafe/shared/openstack"
	"carafe/shared/policy"
	"carafe/shared/postgres"
)

// Platform is what a function gets from the process that runs it.
type Platform struct {
	// Now is the time.
	Now func() time.Time
	// NewID makes a UUID v7.
	NewID func() string
	// Publisher is told after a commit that the outbox has something to send.
	Publisher events.Publisher
	// Owner names this process in leases and in /v1/mservices.
	Owner string
	// DB is the database.
	DB *postgres.DB
	// Conductor is the frame of operations.
	Conductor *conductor.Conductor
	// Drivers are those that this process has.
	Drivers *driver.Registry
	// Secrets keeps certificates and credentials.
	Secrets *certstore.Store
	// Policy decides who may do what.
	Policy *policy.Enforcer
	// API is how HTTP functions authenticate and answer.
	API api.Config
	// Cloud looks up what requests name; Checks are spec/api.md §6.1 over it.
	Cloud  openstack.Cloud
	Checks openstack.Checks
	// Options are the lists that templates choose from.
	Options openstack.Options
}
