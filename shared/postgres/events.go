package postgres

import (
	"context"
	"time"

	"carafe/shared/fault"
	"carafe/shared/magnum"
	"carafe/shared/postgres/internal/sqlc"
)

// Events are the outbox and the history.
type Events struct {
	q     querier
	s     *sqlc.Queries
	later later
}

func eventOf(r sqlc.Event) magnum.Event {
	return magnum.Event{Seq: r.Seq, ID: r.ID, Type: r.Type, Source: r.Source, Subject: r.Subject,
		PartitionKey: orEmpty(r.PartitionKey), OperationID: orEmpty(r.OperationID), Outcome: magnum.Outcome(orEmpty(r.Outcome)),
		Priority: orEmpty(r.Priority), ProjectID: r.ProjectID, RequestID: r.RequestID, Traceparent: r.Traceparent,
		Data: r.Data, CreatedAt: r.CreatedAt, DueAt: r.DueAt, Attempt: r.Attempt, LastError: orEmpty(r.LastError),
		PublishedAt: r.PublishedAt}
}

func eventsOf(rows []sqlc.Event) []magnum.Event {
	list := make([]magnum.Event, len(rows))
	for i, r := range rows {
		list[i] = eventOf(r)
	}
	return list
}

func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Add puts an event into the outbox; it leaves after the transaction's commit. A
// second notification of the same operation, type and outcome is dropped.
func (x Events) Add(ctx context.Context, e magnum.Event) error {
	due := e.DueAt
	if due.IsZero() {
		due = e.CreatedAt
	}
	return classify(x.later(nil).InsertEvent(ctx, sqlc.InsertEventParams{
		ID: e.ID, Type: e.Type, Source: e.Source, Subject: e.Subject, PartitionKey: orNil(e.PartitionKey),
		OperationID: orNil(e.OperationID), Outcome: orNil(string(e.Outcome)), Priority: orNil(e.Priority),
		ProjectID: e.ProjectID, RequestID: e.RequestID, Traceparent: e.Traceparent, Data: e.Data,
		CreatedAt: e.CreatedAt, DueAt: due,
	}), "insert event")
}

// Claim leases up to batch unpublished events that are due to owner until
// leaseUntil, oldest first; another publisher skips them. Of a partition only
// the first unpublished one is given.
func (x Events) Claim(ctx context.Context, owner string, now, leaseUntil time.Time, batch int32) ([]magnum.Event, error) {
	rows, err := x.s.ClaimEvents(ctx, sqlc.ClaimEventsParams{Owner: owner, Now: now, LeaseUntil: &leaseUntil, Batch: batch})
	return eventsOf(rows), classify(err, "claim events")
}

// MarkPublished notes that the broker took the events, those apart that another
// publisher holds by now.
func (x Events) MarkPublished(ctx context.Context, ids []string, owner string, now time.Time) error {
	return classify(x.s.MarkPublished(ctx, sqlc.MarkPublishedParams{Ids: ids, Owner: owner, Now: &now}), "mark events published")
}

// Postpone gives a claimed event back, to be tried again at due.
func (x Events) Postpone(ctx context.Context, id, owner string, due time.Time, reason string) (bool, error) {
	n, err := x.s.PostponeEvent(ctx, sqlc.PostponeEventParams{ID: id, Owner: owner, DueAt: due, LastError: reason})
	return n == 1, classify(err, "postpone event")
}

// OfCluster gives one page of a cluster's notifications, newest first: those
// with a seq below before, or the newest for 0.
func (x Events) OfCluster(ctx context.Context, clusterID string, before int64, page int32) ([]magnum.Event, error) {
	rows, err := x.s.EventsOfCluster(ctx, sqlc.EventsOfClusterParams{Subject: clusterID, BeforeSeq: before, Page: page})
	return eventsOf(rows), classify(err, "read events of the cluster")
}

// Seq finds the place of one of a cluster's events. Fault NotFound.
func (x Events) Seq(ctx context.Context, clusterID, id string) (int64, error) {
	seq, err := x.s.EventSeq(ctx, sqlc.EventSeqParams{ID: id, Subject: clusterID})
	if noRows(err) {
		return 0, fault.New(fault.NotFound, "Event %s could not be found.", id)
	}
	return seq, classify(err, "find event")
}

// Lag counts what waits in the outbox and tells since when the oldest does.
func (x Events) Lag(ctx context.Context, now time.Time) (waiting int64, oldest time.Time, err error) {
	r, err := x.s.OutboxLag(ctx, now)
	return r.Waiting, r.Oldest, classify(err, "measure the outbox")
}

// Forget deletes up to batch events that were published before the time.
func (x Events) Forget(ctx context.Context, before time.Time, batch int32) (int64, error) {
	n, err := x.s.ForgetEvents(ctx, sqlc.ForgetEventsParams{Before: &before, Batch: int64(batch)})
	return n, classify(err, "delete old events")
}

// DeadLetter is an event that a subscriber could not take.
type DeadLetter struct {
	EventID, Source, Type, Subject string
	Destination                    string // the subscriber
	ErrorCode, Error               string
	Data                           []byte
	ReceivedAt                     time.Time
}

// Bury records a dead letter, once.
func (x Events) Bury(ctx context.Context, d DeadLetter) error {
	return classify(x.s.InsertDeadLetter(ctx, sqlc.InsertDeadLetterParams(d)), "insert dead letter")
}

// DeadLetters counts those recorded.
func (x Events) DeadLetters(ctx context.Context) (int64, error) {
	n, err := x.s.CountDeadLetters(ctx)
	return n, classify(err, "count dead letters")
}
