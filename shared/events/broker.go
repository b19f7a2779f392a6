package events

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"

	"carafe/shared/fault"
)

const (
	// brokerLease ends soon after a crash; a delivery that takes longer may be
	// seen twice, which no function minds.
	brokerLease = 30 * time.Second
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
	now    func() time.Time

	wake     chan struct{}
	slots    chan struct{}
	inFlight sync.WaitGroup

	mu sync.Mutex
	// taken remembers which triggers have delivered an event that others have not
	// yet, so that those get no duplicate. It is lost with the process.
	taken map[string]map[string]bool
}

// NewBroker makes a broker over the outbox. Owner names this process in leases.
func NewBroker(outbox Outbox, routes *Routes, functions InProcess, owner string, now func() time.Time) *Broker {
	return &Broker{
		outbox: outbox, routes: routes, owner: owner, now: now,
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
	defer b.inFlight.Wait()
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
	rows, err := b.outbox.ClaimEvents(ctx, b.owner, b.now(), brokerLease, free)
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

// deliver brings one event to all who want it, and settles its row.
func (b *Broker) deliver(ctx context.Context, row Row) {
	id := row.Event.ID()
	var waits []time.Duration // until the next attempt, for each trigger that needs one
	var reasons []string
	matched := b.routes.Match(row.Event)
	for _, t := range matched {
		if b.hasTaken(id, t.Name) {
			continue
		}
		again, err := b.deliverTo(ctx, t, row)
		if err != nil {
			slog.WarnContext(ctx, "deliver event", "event", id, "type", row.Event.Type(), "function", t.Function, "attempt", row.Attempt, "err", err)
			waits = append(waits, again)
			reasons = append(reasons, fmt.Sprintf("%s: %v", t.Function, err))
			continue
		}
		if len(matched) > 1 {
			b.remember(id, t.Name)
		}
	}
	// The row is settled even if the process is being stopped.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if waits == nil {
		b.forget(id)
		if err := b.outbox.MarkPublished(ctx, id, b.owner, b.now()); err != nil {
			slog.ErrorContext(ctx, "mark event", "event", id, "err", err)
		}
		return
	}
	wait := waits[0]
	for _, w := range waits {
		wait = min(wait, w)
	}
	if err := b.outbox.Postpone(ctx, id, b.owner, b.now().Add(wait), strings.Join(reasons, "; ")); err != nil {
		slog.ErrorContext(ctx, "postpone event", "event", id, "err", err)
	}
	time.AfterFunc(wait, func() { b.Publish(ctx) })
}

// deliverTo brings the event to one function, or, after the last attempt, to
// its dead letter sink. With an error it says how long to wait.
func (b *Broker) deliverTo(ctx context.Context, t Trigger, row Row) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, deliverTimeout)
	defer cancel()
	status, body, err := post(ctx, b.client, "http://"+t.Function, row.Event, "")
	if err == nil {
		err = answer(status, body)
	}
	if err == nil {
		return 0, nil
	}
	wait := t.Delivery.wait(row.Attempt - 1)
	refused := fault.Is(err, fault.Invalid)
	if !refused && row.Attempt <= t.Delivery.Retry {
		return wait, err
	}
	if t.Delivery.DeadLetterSink == "" {
		slog.ErrorContext(ctx, "event dropped: nobody took it, and there is no dead letter sink",
			"event", row.Event.ID(), "type", row.Event.Type(), "function", t.Function, "err", err)
		return 0, nil
	}
	dead := row.Event.Clone()
	dead.SetExtension(ExtensionErrorDest, "http://"+t.Function)
	dead.SetExtension(ExtensionErrorCode, status)
	dead.SetExtension(ExtensionErrorData, errorData(body, err))
	deadStatus, deadBody, deadErr := post(ctx, b.client, "http://"+t.Delivery.DeadLetterSink, dead, "")
	if deadErr == nil {
		deadErr = answer(deadStatus, deadBody)
	}
	if deadErr != nil {
		// Knative drops it here; we have the row.
		return max(wait, time.Minute), fmt.Errorf("%w; and its dead letter sink: %w", err, deadErr)
	}
	return 0, nil
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
