package function

import (
	"context"
	"time"

	"github.com/google/uuid"

	"carafe/shared/events"
	"carafe/shared/postgres"
	"carafe/shared/telemetry"
)

// NewPlatform makes what all functions of a process share. It opens nothing
// that must be closed: what it is given belongs to the caller.
func NewPlatform(_ context.Context, _ *Env, db *postgres.DB, publisher events.Publisher, owner string, _ *telemetry.Telemetry) (*Platform, error) {
	return &Platform{Now: time.Now, NewID: newID, Publisher: publisher, Owner: owner, DB: db}, nil
}

// newID makes a UUID v7.
func newID() string { return uuid.Must(uuid.NewV7()).String() }
