package events_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"carafe/shared/events"
	"carafe/shared/fault"
	"carafe/shared/magnum"
	"carafe/shared/pgtest"
)

// sink is a broker's address that answers as told.
func sink(t *testing.T, h http.Handler) *events.Sender {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	s, err := events.NewSender(events.Sink{URL: srv.URL, Overrides: `{"extensions":{"region":"here"}}`})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPublisherEmptiesTheOutbox(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	var got seen
	p := &events.SinkPublisher{Outbox: db.Events, Sender: sink(t, got.takes(fine)), Owner: "test", Now: time.Now}
	const n = 100
	for range n {
		add(t, db, magnum.Event{Type: events.ClusterCreate})
	}
	p.Publish(t.Context())
	settled(t, db)
	if len(got.list()) != n {
		t.Errorf("%d events arrived of %d", len(got.list()), n)
	}
	if region := got.list()[0].Extensions()["region"]; region != "here" {
		t.Errorf("K_CE_OVERRIDES is not applied: %v", region)
	}
}

func TestPublisherKeepsWhatTheBrokerDoesNotTake(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	var got seen
	var away atomic.Bool
	away.Store(true)
	now := time.Now()
	p := &events.SinkPublisher{Outbox: db.Events, Owner: "test", Now: func() time.Time { return now },
		Sender: sink(t, got.takes(func(event.Event, int) error {
			if away.Load() {
				return fault.New(fault.Unavailable, "away")
			}
			return nil
		}))}
	add(t, db, magnum.Event{Type: events.ClusterCreate})
	now = time.Now()
	p.Publish(t.Context())
	p.Publish(t.Context()) // not due yet
	if len(got.list()) != 1 {
		t.Errorf("sent %d times at once", len(got.list()))
	}
	away.Store(false)
	now = now.Add(time.Second)
	p.Publish(t.Context())
	settled(t, db)
}

func TestSenderClassifies(t *testing.T) {
	t.Parallel()
	e := event.New()
	e.SetID("1")
	e.SetType(events.Sync)
	e.SetSource("/test")
	for status, transient := range map[int]bool{200: false, 202: false, 400: false, 401: false, 404: true, 408: true, 409: true, 413: false, 422: false, 429: true, 500: true, 503: true} {
		err := sink(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })).Send(t.Context(), e)
		if (err == nil) != (status < 300) || err != nil && fault.Transient(err) != transient {
			t.Errorf("%d: %v, transient %t", status, err, fault.Transient(err))
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // nobody listens there now
	s, err := events.NewSender(events.Sink{URL: "http://" + l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(t.Context(), e); !fault.Is(err, fault.Unavailable) {
		t.Errorf("nobody listens: %v", err)
	}
}

func TestSinkSettings(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		sink events.Sink
		want string
	}{
		{events.Sink{URL: "broker"}, "K_SINK"},
		{events.Sink{URL: "ftp://broker"}, "K_SINK"},
		{events.Sink{URL: "http://broker", Overrides: "{"}, "K_CE_OVERRIDES"},
		{events.Sink{URL: "https://broker", CACerts: "x"}, "K_CA_CERTS"},
	} {
		if _, err := events.NewSender(tc.sink); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v", tc.sink, err)
		}
	}
}
