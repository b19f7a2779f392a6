package events

import (
	"context"
	"log/slog"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"golang.org/x/sync/errgroup"

	"carafe/shared/fault"
	"carafe/shared/magnum"
)

// Outbox is the table of events, as those who empty it see it.
type Outbox interface {
	// Claim leases up to batch unpublished events that are due to owner until
	// leaseUntil and returns them, oldest first; Attempt counts this claim too.
	// Others skip them until the lease ends. Of events that keep an order
	// (PartitionKey) only the first is given out.
	Claim(ctx context.Context, owner string, now, leaseUntil time.Time, batch int32) ([]magnum.Event, error)
	// MarkPublished says that events have arrived; those whose lease has passed to
	// another are left to it.
	MarkPublished(ctx context.Context, ids []string, owner string, now time.Time) error
	// Postpone gives the event back until due, with the reason for people; false:
	// the lease has passed to another.
	Postpone(ctx context.Context, id, owner string, due time.Time, reason string) (bool, error)
}

// encode makes the CloudEvent of a row. Its time is that of the change, not of
// the sending.
func encode(row magnum.Event) (event.Event, error) {
	e := event.New()
	e.SetID(row.ID)
	e.SetType(row.Type)
	e.SetSource(row.Source)
	e.SetSubject(row.Subject)
	e.SetTime(row.CreatedAt)
	for name, value := range map[string]string{
		ExtensionOutcome:     string(row.Outcome),
		ExtensionPriority:    row.Priority,
		ExtensionProject:     row.ProjectID,
		ExtensionRequest:     row.RequestID,
		ExtensionOperation:   row.OperationID,
		ExtensionTraceparent: row.Traceparent,
		ExtensionPartition:   row.PartitionKey,
	} {
		if value != "" {
			e.SetExtension(name, value)
		}
	}
	if err := e.SetData(event.ApplicationJSON, row.Data); err != nil {
		return e, fault.Wrap(fault.Invalid, err, "event %s cannot be encoded", row.ID)
	}
	if err := e.Validate(); err != nil {
		return e, fault.Wrap(fault.Invalid, err, "event %s is not a CloudEvent", row.ID)
	}
	return e, nil
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
	settleTime   = 5 * time.Second
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
		rows, err := p.Outbox.Claim(ctx, p.Owner, p.Now(), p.Now().Add(sendLease), publishBatch)
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

func (p *SinkPublisher) send(ctx context.Context, row magnum.Event) error {
	sendCtx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	e, err := encode(row)
	if err == nil {
		err = p.Sender.Send(sendCtx, e)
	}
	// The row must not stay leased because our time is over.
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	if err != nil {
		slog.WarnContext(ctx, "send event", "event", row.ID, "type", row.Type, "attempt", row.Attempt, "err", err)
		if _, err := p.Outbox.Postpone(ctx, row.ID, p.Owner, p.Now().Add(backoff(row.Attempt)), err.Error()); err != nil {
			slog.ErrorContext(ctx, "postpone event", "event", row.ID, "err", err)
		}
		return err
	}
	if err := p.Outbox.MarkPublished(ctx, []string{row.ID}, p.Owner, p.Now()); err != nil {
		// It will be sent once more, and its receivers will see a duplicate.
		slog.ErrorContext(ctx, "mark event", "event", row.ID, "err", err)
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
