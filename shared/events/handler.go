package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"go.opentelemetry.io/otel/trace"

	"carafe/shared/fault"
	"carafe/shared/identity"
	"carafe/shared/telemetry"
)

// maxBody bounds one event. Ours carry ids and notifications; the largest is a
// notification with its cluster, a few KiB.
const maxBody = 1 << 20

// Handler makes the http.Handler of an event function: it reads one CloudEvent,
// in binary or structured mode, and hands it on. If types are named, others are
// refused.
//
// It answers 204 when the event is done (or was already done), 422 when it can
// never be done (no retry: the broker sends it to the dead letter sink) and 503
// when it should be delivered again with backoff. What is no event gets 400, a
// batch 415, a body over 1 MiB 413, another method than POST 405.
//
// It never answers 404, 408, 409 or 429: the broker retries those too
// (knative/eventing pkg/kncloudevents/retries.go, SelectiveRetry). Success has no
// body: a broker takes one for a reply event, and fails if it is none.
func Handler(handle func(context.Context, event.Event) error, types ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e, status, err := read(w, r)
		if err != nil {
			slog.WarnContext(r.Context(), "not an event", "status", status, "err", err)
			http.Error(w, err.Error(), status)
			return
		}
		ctx := contextOf(r.Context(), e)
		if len(types) > 0 && !slices.Contains(types, e.Type()) {
			err = fault.New(fault.Invalid, "no event of type %q is taken here", e.Type())
		} else {
			err = guard(ctx, handle, e)
		}
		status, text := statusOf(err)
		if err != nil {
			slog.ErrorContext(ctx, "event not taken", "subject", e.Subject(), "status", status, "err", err)
			http.Error(w, text, status)
			return
		}
		w.WriteHeader(status)
	})
}

// read takes the one event out of the request, or says with which status the
// request is refused.
func read(w http.ResponseWriter, r *http.Request) (_ event.Event, status int, err error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return event.Event{}, http.StatusMethodNotAllowed, errors.New("events come by POST")
	}
	// The binding indexes into header names without looking (v2.16.2,
	// protocol/http/message.go, ReadBinary: a header "Ce-").
	defer func() {
		if p := recover(); p != nil {
			status, err = http.StatusBadRequest, fmt.Errorf("malformed event: %v", p)
		}
	}()
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	m := cehttp.NewMessageFromHttpRequest(r)
	defer m.Finish(nil)
	switch m.ReadEncoding() {
	case binding.EncodingBatch:
		return event.Event{}, http.StatusUnsupportedMediaType, errors.New("send one event at a time: batches are not taken")
	case binding.EncodingUnknown:
		return event.Event{}, http.StatusBadRequest, errors.New("not a CloudEvent: neither ce-specversion nor application/cloudevents+json")
	}
	e, err := binding.ToEvent(r.Context(), m)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return event.Event{}, http.StatusRequestEntityTooLarge, fmt.Errorf("the event is over %d bytes", maxBody)
	case err != nil:
		return event.Event{}, http.StatusBadRequest, fmt.Errorf("malformed event: %w", err)
	}
	if err := e.Validate(); err != nil {
		return event.Event{}, http.StatusBadRequest, fmt.Errorf("malformed event: %w", err)
	}
	return *e, 0, nil
}

// guard turns a panic of the handler into an error that is tried again: the
// process serves other events meanwhile, and one of them must not end it.
func guard(ctx context.Context, handle func(context.Context, event.Event) error, e event.Event) (err error) {
	defer func() {
		if p := recover(); p != nil {
			slog.ErrorContext(ctx, "panic in a function", "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return handle(ctx, e)
}

// statusOf is the one place where a fault becomes an answer to a broker.
func statusOf(err error) (status int, text string) {
	switch {
	case err == nil:
		return http.StatusNoContent, ""
	case fault.Transient(err), fault.Is(err, fault.Conflict):
		// A conflict is a race that the next attempt sees the end of.
		return http.StatusServiceUnavailable, fault.Text(err)
	default:
		return http.StatusUnprocessableEntity, fault.Text(err)
	}
}

// contextOf carries on what the event says of the request it came from: its id
// and its trace, so that logs and spans of both hang together.
func contextOf(ctx context.Context, e event.Event) context.Context {
	extension := func(name string) string {
		value, _ := e.Extensions()[name].(string)
		return value
	}
	attrs := []slog.Attr{slog.String("event", e.ID()), slog.String("type", e.Type())}
	if id := extension(ExtensionRequest); id != "" {
		ctx = identity.WithRequestID(ctx, id)
		attrs = append(attrs, slog.String("request_id", id))
	}
	if id := extension(ExtensionOperation); id != "" {
		attrs = append(attrs, slog.String("operation", id))
	}
	// In binary mode whoever measures the function has seen it in the header.
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = telemetry.Continue(ctx, extension(ExtensionTraceparent))
	}
	return telemetry.With(ctx, attrs...)
}
