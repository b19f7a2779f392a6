package events_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carafe/shared/events"
	"carafe/shared/fault"
	"carafe/shared/magnum"
	"carafe/shared/pgtest"
	"carafe/shared/postgres"
)

// The broker's Outbox is the database's.
var _ events.Outbox = postgres.Events{}

const manifests = `
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: carafe}
spec:
  delivery:
    retry: 2
    backoffPolicy: exponential
    backoffDelay: PT0.01S
    deadLetterSink: {ref: {apiVersion: serving.knative.dev/v1, kind: Service, name: dead}}
---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: create}
spec:
  broker: carafe
  filter: {attributes: {type: magnum.conductor.cluster.create}}
  subscriber: {ref: {apiVersion: serving.knative.dev/v1, kind: Service, name: create}}
---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: watcher}
spec:
  broker: carafe
  filters: [{prefix: {type: magnum.cluster.}}]
  subscriber: {ref: {apiVersion: serving.knative.dev/v1, kind: Service, name: watcher}}
---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: second}
spec:
  broker: carafe
  filter: {attributes: {type: magnum.cluster.health}}
  subscriber: {ref: {apiVersion: serving.knative.dev/v1, kind: Service, name: second}}
`

// seen is what a function got.
type seen struct {
	mu     sync.Mutex
	events []event.Event
}

func (s *seen) add(e event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

func (s *seen) list() []event.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// takes makes a function that records what it gets and answers by result.
func (s *seen) takes(result func(e event.Event, times int) error) http.Handler {
	times := map[string]int{}
	var mu sync.Mutex
	return events.Handler(func(_ context.Context, e event.Event) error {
		mu.Lock()
		times[e.ID()]++
		n := times[e.ID()]
		mu.Unlock()
		s.add(e)
		return result(e, n)
	})
}

func fine(event.Event, int) error { return nil }

func add(t *testing.T, db *postgres.DB, e magnum.Event) magnum.Event {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	e.ID, e.Source = id.String(), "/container-infra/test"
	e.CreatedAt = time.Now().UTC().Truncate(time.Microsecond)
	if e.Subject == "" {
		e.Subject = uuid.NewString()
	}
	if e.Data == nil {
		e.Data = json.RawMessage(`{}`)
	}
	if err := db.Events.Add(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	return e
}

// run starts a broker over the database and stops it when the test ends.
func run(t *testing.T, db *postgres.DB, functions events.InProcess) *events.Broker {
	t.Helper()
	routes, err := events.ReadRoutes(fstest.MapFS{"test.yaml": {Data: []byte(manifests)}})
	if err != nil {
		t.Fatal(err)
	}
	b := events.NewBroker(db.Events, routes, functions, "test/"+t.Name(), 30*time.Second, time.Now)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		b.Run(ctx)
		close(done)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return b
}

// settled waits until nothing is in the outbox.
func settled(t *testing.T, db *postgres.DB) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		waiting, _, err := db.Events.Lag(t.Context(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if waiting == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d events are still in the outbox", waiting)
		}
	}
}

func TestBrokerDeliversTheWholeEvent(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	var create seen
	b := run(t, db, events.InProcess{"create": create.takes(fine)})
	operation := uuid.NewString()
	row := add(t, db, magnum.Event{Type: events.ClusterCreate, OperationID: operation, ProjectID: "p1", RequestID: "req-1",
		Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Data: json.RawMessage(`{"operation_id": "x"}`)})
	b.Publish(t.Context())
	settled(t, db)
	got := create.list()
	if len(got) != 1 {
		t.Fatalf("delivered %d times", len(got))
	}
	want := event.New()
	want.SetID(row.ID)
	want.SetType(events.ClusterCreate)
	want.SetSource("/container-infra/test")
	want.SetSubject(row.Subject)
	want.SetTime(row.CreatedAt)
	want.SetExtension("operationid", operation)
	want.SetExtension("projectid", "p1")
	want.SetExtension("requestid", "req-1")
	want.SetExtension("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if err := want.SetData("application/json", json.RawMessage(`{"operation_id":"x"}`)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), got[0].String()); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
}

func TestBrokerTriesAgainAndGivesUp(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name       string
		result     func(event.Event, int) error
		wantTries  int
		wantCode   string // of the dead letter; empty: none
		wantReason string
	}{
		{"Taken", fine, 1, "", ""},
		{"TakenAtTheLastAttempt", func(_ event.Event, n int) error {
			if n < 3 {
				return fault.New(fault.Unavailable, "away")
			}
			return nil
		}, 3, "", ""},
		{"NeverTaken", func(event.Event, int) error { return fault.New(fault.Unavailable, "away") }, 3, "503", "away"},
		{"RefusedForGood", func(event.Event, int) error { return fault.New(fault.Invalid, "no such\noperation ä") }, 1, "422", "no such operation ä"},
		{"Panics", func(event.Event, int) error { panic("boom") }, 3, "503", "Internal server error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			var create, dead seen
			b := run(t, db, events.InProcess{"create": create.takes(tc.result), "dead": dead.takes(fine)})
			row := add(t, db, magnum.Event{Type: events.ClusterCreate})
			b.Publish(t.Context())
			settled(t, db)
			if got := len(create.list()); got != tc.wantTries {
				t.Errorf("tried %d times, want %d", got, tc.wantTries)
			}
			letters := dead.list()
			if tc.wantCode == "" {
				if len(letters) > 0 {
					t.Errorf("dead letters: %v", letters)
				}
				return
			}
			if len(letters) != 1 || letters[0].ID() != row.ID || letters[0].Type() != row.Type {
				t.Fatalf("dead letters: %v", letters)
			}
			got := letters[0].Extensions()
			if fmt.Sprint(got["knativeerrorcode"]) != tc.wantCode || got["knativeerrordata"] != tc.wantReason || got["knativeerrordest"] != "http://create" {
				t.Errorf("extensions %v", got)
			}
		})
	}
}

func TestBrokerKeepsWhatNobodyCouldTake(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	refuse := func(event.Event, int) error { return fault.New(fault.Invalid, "no") }
	var create, dead seen
	b := run(t, db, events.InProcess{"create": create.takes(refuse), "dead": dead.takes(refuse)})
	add(t, db, magnum.Event{Type: events.ClusterCreate})
	b.Publish(t.Context())
	for end := time.Now().Add(10 * time.Second); len(dead.list()) == 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	waiting, _, err := db.Events.Lag(t.Context(), time.Now())
	if err != nil || waiting != 1 {
		t.Errorf("%d events wait, want 1 (%v)", waiting, err)
	}
}

func TestBrokerKeepsTheOrderOfACluster(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	var watcher seen
	// Every first attempt fails, so that a later event could overtake.
	b := run(t, db, events.InProcess{"watcher": watcher.takes(func(_ event.Event, n int) error {
		if n == 1 {
			return fault.New(fault.Unavailable, "away")
		}
		return nil
	})})
	want := map[string][]string{}
	for range 5 {
		cluster := uuid.NewString()
		for range 8 {
			e := add(t, db, magnum.Event{Type: events.NotifyClusterUpdate, Subject: cluster, PartitionKey: cluster})
			want[cluster] = append(want[cluster], e.ID)
		}
	}
	b.Publish(t.Context())
	settled(t, db)
	got, taken := map[string][]string{}, map[string]bool{}
	for _, e := range watcher.list() {
		if taken[e.ID()] { // the second attempt is the one that counts
			got[e.Subject()] = append(got[e.Subject()], e.ID())
		}
		taken[e.ID()] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestBrokerSparesThoseWhoHaveTakenIt(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	var watcher, second seen
	b := run(t, db, events.InProcess{
		"watcher": watcher.takes(fine),
		"second": second.takes(func(_ event.Event, n int) error {
			if n < 3 {
				return fault.New(fault.Unavailable, "away")
			}
			return nil
		}),
	})
	add(t, db, magnum.Event{Type: events.NotifyClusterHealth})
	b.Publish(t.Context())
	settled(t, db)
	if len(watcher.list()) != 1 || len(second.list()) != 3 {
		t.Errorf("watcher got it %d times, second %d; want 1 and 3", len(watcher.list()), len(second.list()))
	}
}

func TestBrokerMarksWhatNobodyWants(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	b := run(t, db, events.InProcess{})
	add(t, db, magnum.Event{Type: "magnum.other"})
	b.Publish(t.Context())
	settled(t, db)
}

func TestTwoBrokersDeliverOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	var create seen
	functions := events.InProcess{"create": create.takes(fine)}
	one, two := run(t, db, functions), run(t, db, functions)
	const n = 200
	for range n {
		add(t, db, magnum.Event{Type: events.ClusterCreate})
		one.Publish(t.Context())
		two.Publish(t.Context())
	}
	settled(t, db)
	if got := len(create.list()); got != n {
		t.Errorf("%d deliveries of %d events", got, n)
	}
}

func TestBrokerWaitsForDeliveriesInFlight(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	routes, err := events.ReadRoutes(fstest.MapFS{"test.yaml": {Data: []byte(manifests)}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	finished := false
	b := events.NewBroker(db.Events, routes, events.InProcess{"create": events.Handler(func(inner context.Context, _ event.Event) error {
		cancel() // the process is told to stop while this runs
		select {
		case <-inner.Done():
			t.Error("the delivery was cut off")
		case <-time.After(100 * time.Millisecond):
		}
		finished = true
		return nil
	})}, "test", 30*time.Second, time.Now)
	add(t, db, magnum.Event{Type: events.ClusterCreate})
	b.Run(ctx)
	if !finished {
		t.Error("Run returned before the delivery did")
	}
	settled(t, db)
}
