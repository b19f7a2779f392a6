package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/cloudevents/sdk-go/v2/event"

	"carafe/shared/fault"
	"carafe/shared/magnum"
)

const (
	// deliverTimeout is Knative's limit for one request (timeoutSeconds, 300).
	deliverTimeout = 5 * time.Minute
	// brokerPoll finds what another process has recorded; our own wakes us.
	brokerPoll = 2 * time.Second
	// brokerInFlight bounds the deliveries at one time.
	brokerInFlight = 32
	// DrainTime is how long deliveries and ticks in flight may take once the
	// process is told to stop; then their contexts end.
	DrainTime = 20 * time.Second
)

// Broker delivers what is in the outbox to functions of the same process, by
// the same Triggers and with the same answers as Knative's broker. An event that
// is not taken waits in its row for the next attempt, so that a restart forgets
// nothing.
type Broker struct {
	outbox Outbox
	routes *Routes
	client *http.Client
	owner  string
	lease  time.Duration
	now    func() time.Time

	wake     chan struct{}
	slots    chan struct{}
	inFlight sync.WaitGroup

	mu sync.Mutex
	// delivered are the events to be marked with the next claim. Should the process
	// die before that, they are delivered once more.
	delivered []string
	// taken remembers which triggers have delivered an event that others have not
	// yet, so that those get no duplicate. It is lost with the process.
	taken map[string]map[string]bool
}

// NewBroker makes a broker over the outbox. Owner names this process in leases.
// A lease is how long an event whose process died rests before another delivers
// it; a delivery that takes longer may be seen twice, which no function minds.
func NewBroker(outbox Outbox, routes *Routes, functions InProcess, owner string, lease time.Duration, now func() time.Time) *Broker {
	return &Broker{
		outbox: outbox, routes: routes, owner: owner, lease: lease, now: now,
		client: &http.Client{Transport: functions},
		wake:   make(chan struct{}, 1),
		slots:  make(chan struct{}, brokerInFlight),
		taken:  map[string]map[string]bool{},
	}
}

// Publish wakes the broker. It never waits.
func (b *Broker) Publish(context.Context) {
	select {
	case b.wake <- struct{}{}:
	default: // it is awake already
	}
}

// Run delivers until the context ends, then waits for what is in flight.
func (b *Broker) Run(ctx context.Context) {
	deliveries, stop := drainable(ctx)
	defer stop()
	defer func() {
		b.inFlight.Wait()
		b.mark(context.WithoutCancel(ctx))
	}()
	poll := time.NewTicker(brokerPoll)
	defer poll.Stop()
	for {
		claimed, err := b.claim(ctx, deliveries)
		if err != nil && ctx.Err() == nil {
			slog.ErrorContext(ctx, "claim events", "err", err)
		}
		if claimed > 0 {
			continue // there may be more
		}
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
		case <-poll.C:
		}
	}
}

// drainable is a context that outlives ctx by DrainTime.
func drainable(ctx context.Context) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(DrainTime, cancel) })
	return inner, func() { stop(); cancel() }
}

// claim takes as many events as there are free slots, at least one, and starts
// their deliveries.
func (b *Broker) claim(ctx, deliveries context.Context) (int, error) {
	free := 0
	select {
	case b.slots <- struct{}{}:
		free = 1
	case <-ctx.Done():
		return 0, nil
	}
	for full := false; !full && free < cap(b.slots); {
		select {
		case b.slots <- struct{}{}:
			free++
		default:
			full = true
		}
	}
	b.mark(ctx)
	rows, err := b.outbox.Claim(ctx, b.owner, b.now(), b.now().Add(b.lease), int32(free))
	for range free - len(rows) {
		<-b.slots
	}
	for _, row := range rows {
		b.inFlight.Go(func() {
			defer func() {
				<-b.slots
				b.Publish(deliveries) // the next in order may be due now
			}()
			b.deliver(deliveries, row)
		})
	}
	return len(rows), err
}

// mark writes down what has been delivered, all of it in one statement.
func (b *Broker) mark(ctx context.Context) {
	b.mu.Lock()
	ids := b.delivered
	b.delivered = nil
	b.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	if err := b.outbox.MarkPublished(ctx, ids, b.owner, b.now()); err != nil {
		slog.ErrorContext(ctx, "mark events", "events", ids, "err", err)
	}
}

// deliver brings one event to all who want it, and settles its row.
func (b *Broker) deliver(ctx context.Context, row magnum.Event) {
	wait, err := b.offer(ctx, row)
	// The row is settled even if the process is being stopped.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.delivered = append(b.delivered, row.ID)
		return
	}
	slog.WarnContext(ctx, "deliver event", "event", row.ID, "type", row.Type, "attempt", row.Attempt, "again_in", wait, "err", err)
	if _, err := b.outbox.Postpone(ctx, row.ID, b.owner, b.now().Add(wait), err.Error()); err != nil {
		slog.ErrorContext(ctx, "postpone event", "event", row.ID, "err", err)
	}
	time.AfterFunc(wait, func() { b.Publish(ctx) })
}

// offer brings the event to each function whose Trigger it passes and that has
// not taken it yet. With an error it says how long to wait.
func (b *Broker) offer(ctx context.Context, row magnum.Event) (wait time.Duration, err error) {
	e, err := encode(row)
	if err != nil {
		return time.Hour, err // a bug: it stays in sight, in its row and in the log
	}
	matched := b.routes.Match(e)
	var errs []error
	for _, t := range matched {
		if b.hasTaken(row.ID, t.Name) {
			continue
		}
		again, err := b.offerTo(ctx, t, e, row.Attempt)
		switch {
		case err == nil && len(matched) > 1:
			b.remember(row.ID, t.Name)
		case err != nil:
			if wait == 0 || again < wait {
				wait = again
			}
			errs = append(errs, fmt.Errorf("%s: %w", t.Function, err))
		}
	}
	if errs == nil {
		b.forget(row.ID)
	}
	return wait, errors.Join(errs...)
}

// offerTo brings the event to one function or, once that has refused it for
// good or for the last time, to its dead letter sink.
func (b *Broker) offerTo(ctx context.Context, t Trigger, e event.Event, attempt int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, deliverTimeout)
	defer cancel()
	status, body, err := b.post(ctx, t.Function, e)
	if err == nil {
		return 0, nil
	}
	wait := t.Delivery.wait(attempt - 1)
	if !fault.Is(err, fault.Invalid) && attempt <= t.Delivery.Retry {
		return wait, err
	}
	if t.Delivery.DeadLetterSink == "" {
		slog.ErrorContext(ctx, "event dropped: it was not taken, and there is no dead letter sink",
			"event", e.ID(), "type", e.Type(), "function", t.Function, "err", err)
		return 0, nil
	}
	dead := e.Clone()
	dead.SetExtension(ExtensionErrorDest, "http://"+t.Function)
	dead.SetExtension(ExtensionErrorCode, status)
	dead.SetExtension(ExtensionErrorData, errorData(body, err))
	if _, _, deadErr := b.post(ctx, t.Delivery.DeadLetterSink, dead); deadErr != nil {
		// Knative drops it here; we have the row.
		return max(wait, time.Minute), fmt.Errorf("%w; and its dead letter sink: %w", err, deadErr)
	}
	return 0, nil
}

func (b *Broker) post(ctx context.Context, function string, e event.Event) (status int, body string, err error) {
	status, body, err = post(ctx, b.client, "http://"+function, e, "")
	if err == nil {
		err = answer(status, body)
	}
	return status, body, err
}

// errorData is what a receiver said, fit for a header.
func errorData(body string, err error) string {
	if body == "" {
		body = err.Error()
	}
	body = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, body)
	if len(body) > errorDataLength {
		body = strings.ToValidUTF8(body[:errorDataLength], "")
	}
	return body
}

func (b *Broker) hasTaken(event, trigger string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken[event][trigger]
}

func (b *Broker) remember(event, trigger string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.taken[event] == nil {
		b.taken[event] = map[string]bool{}
	}
	b.taken[event][trigger] = true
}

func (b *Broker) forget(event string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.taken, event)
}
