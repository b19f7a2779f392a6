package events

import (
	"context"
	"log/slog"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"golang.org/x/sync/errgroup"

	"carafe/shared/fault"
)

// Row is an event that waits in the outbox.
type Row struct {
	Event   event.Event
	Attempt int // how often it was claimed, this time included
}

// Outbox is the table of events, as those who empty it see it.
type Outbox interface {
	// ClaimEvents leases up to limit unpublished events that are due to owner
	// until now+lease and returns them, oldest first. Others skip them until the
	// lease ends. Of events that keep an order only the first is given out.
	ClaimEvents(ctx context.Context, owner string, now time.Time, lease time.Duration, limit int) ([]Row, error)
	// MarkPublished says that the event has arrived. It does nothing if the
	// lease has passed to another.
	MarkPublished(ctx context.Context, id, owner string, now time.Time) error
	// Postpone gives the event back until due, with the reason for people.
	Postpone(ctx context.Context, id, owner string, due time.Time, reason string) error
}

// Publisher sees to it that what the outbox holds leaves soon. A handler calls
// Publish after its commit and after its answer has left; that an event leaves
// does not depend on it, the relay function finds what stayed.
type Publisher interface {
	Publish(ctx context.Context)
}

// Unattended is the Publisher of a process that has no broker to send to: the
// events stay where they are until a process that has one finds them.
type Unattended struct{}

// Publish does nothing.
func (Unattended) Publish(context.Context) {}

const (
	// sendLease must be longer than sendTimeout: the lease is what keeps another
	// process from sending the same event meanwhile.
	sendLease = 60 * time.Second
	// sendTimeout is long: Knative's broker over in-memory channels answers only
	// when all subscribers have, from zero if need be.
	sendTimeout = 45 * time.Second
	// publishTime bounds what one request spends on the backlog of others.
	publishTime  = 60 * time.Second
	publishBatch = 32
	publishAtOne = 8 // events in flight from one process
)

// SinkPublisher sends what the outbox holds to a broker. It runs within the
// request that calls it and leaves nothing behind.
type SinkPublisher struct {
	Outbox Outbox
	Sender *Sender
	Owner  string // names this process in leases
	Now    func() time.Time
}

// Publish claims, sends and marks until nothing is due, or until the broker
// turns out not to answer: the rest is then for the next request or tick. The context's end does
// not stop it: whoever made the request may have gone with their answer.
func (p *SinkPublisher) Publish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTime)
	defer cancel()
	for ctx.Err() == nil {
		rows, err := p.Outbox.ClaimEvents(ctx, p.Owner, p.Now(), sendLease, publishBatch)
		if err != nil {
			slog.ErrorContext(ctx, "claim events", "err", err)
			return
		}
		if len(rows) == 0 {
			return
		}
		var inFlight errgroup.Group
		inFlight.SetLimit(publishAtOne)
		for _, row := range rows {
			inFlight.Go(func() error { return p.send(ctx, row) })
		}
		if inFlight.Wait() != nil {
			return // send has logged it
		}
	}
}

func (p *SinkPublisher) send(ctx context.Context, row Row) error {
	id := row.Event.ID()
	sendCtx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	err := p.Sender.Send(sendCtx, row.Event)
	// The row must not stay leased because our time is over.
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err != nil {
		slog.WarnContext(ctx, "send event", "event", id, "type", row.Event.Type(), "attempt", row.Attempt, "err", err)
		if err := p.Outbox.Postpone(ctx, id, p.Owner, p.Now().Add(backoff(row.Attempt)), err.Error()); err != nil {
			slog.ErrorContext(ctx, "postpone event", "event", id, "err", err)
		}
		return err
	}
	if err := p.Outbox.MarkPublished(ctx, id, p.Owner, p.Now()); err != nil {
		// It will be sent once more, and its receivers will see a duplicate.
		slog.ErrorContext(ctx, "mark event", "event", id, "err", err)
		return err
	}
	return nil
}

// backoff is how long an event rests after the attempt-th failure: from half a
// second, doubled each time, to five minutes.
func backoff(attempt int) time.Duration {
	const first, most = 500 * time.Millisecond, 5 * time.Minute
	if attempt > 10 {
		return most
	}
	return min(first<<max(attempt-1, 0), most)
}

// answer turns a status that a receiver or broker gave into an error: nil, one
// that trying again can mend, or one that it cannot
// (knative/eventing pkg/kncloudevents/retries.go, SelectiveRetry).
func answer(status int, body string) error {
	switch {
	case status >= 200 && status <= 299:
		return nil
	case status >= 500, status == 404, status == 408, status == 409, status == 429:
		return fault.New(fault.Unavailable, "answered %d: %s", status, body)
	default:
		return fault.New(fault.Invalid, "refused with %d: %s", status, body)
	}
}
