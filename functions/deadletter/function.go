// Package deadletter is the function that a broker sends to what a Trigger could
// not deliver. It records the event where operators find it (carafe doctor, the
// metric carafe_dead_letters). The operation behind a lost command is not lost:
// relay publishes its command again.
package deadletter

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"carafe/shared/events"
	"carafe/shared/function"
	"carafe/shared/postgres"
)

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "deadletter", Kind: function.Event, Build: build}
}

func build(_ context.Context, p *function.Platform) (http.Handler, error) {
	h := &handler{db: p.DB, now: p.Now}
	return events.Handler(h.bury), nil
}

type handler struct {
	db  *postgres.DB
	now func() time.Time
}

func (h *handler) bury(ctx context.Context, e event.Event) error {
	d := postgres.DeadLetter{EventID: e.ID(), Source: e.Source(), Type: e.Type(), Subject: e.Subject(), ReceivedAt: h.now(),
		Destination: text(e, events.ExtensionErrorDest), ErrorCode: text(e, events.ExtensionErrorCode), Error: text(e, events.ExtensionErrorData)}
	if e.DataContentType() == event.ApplicationJSON {
		d.Data = e.Data()
	}
	slog.ErrorContext(ctx, "dead letter", "event", d.EventID, "type", d.Type, "subject", d.Subject,
		"destination", d.Destination, "code", d.ErrorCode)
	return h.db.Events.Bury(ctx, d)
}

func text(e event.Event, extension string) string {
	s, _ := e.Extensions()[extension].(string)
	return s
}
