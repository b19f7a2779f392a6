package function

import (
	"time"

	"carafe/shared/events"
)

// Platform is what a function gets from the process that runs it.
type Platform struct {
	// Now is the time.
	Now func() time.Time
	// Publisher is told after a commit that the outbox has something to send.
	Publisher events.Publisher
	// Owner names this process in leases and in /v1/mservices.
	Owner string
}
