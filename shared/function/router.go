package function

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/go-chi/chi/v5"

	"carafe/shared/api"
	"carafe/shared/events"
	"carafe/shared/telemetry"
)

// Built is a function with its handler.
type Built struct {
	Function
	Handler http.Handler
}

// Build makes the handlers of all functions. The HTTP functions among them get
// one router together, which is the handler of each: alone, a function answers
// its own routes; with others, all of theirs.
func Build(ctx context.Context, functions []Function, p *Platform, t *telemetry.Telemetry) ([]Built, error) {
	if err := reportState(functions, p, t); err != nil {
		return nil, fmt.Errorf("gauges: %w", err)
	}
	var all []Built
	handlers, part := map[string]api.Handler{}, ""
	for _, f := range functions {
		if f.Kind == HTTP {
			own, err := f.Handlers(ctx, p)
			if err != nil {
				return nil, fmt.Errorf("function %s: %w", f.Name, err)
			}
			maps.Copy(handlers, own)
			if part != "" {
				part = "api"
			} else {
				part = f.Name
			}
			continue
		}
		h, err := f.Build(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("function %s: %w", f.Name, err)
		}
		if h == nil {
			continue
		}
		all = append(all, Built{Function: f, Handler: t.Middleware(f.Name, h)})
	}
	if part == "" {
		return all, nil
	}
	only := part
	if part == "api" {
		only = api.All
		for _, r := range api.Routes {
			if handlers[r.Operation] == nil {
				return nil, fmt.Errorf("a process serves one HTTP function or all of them: %s is missing", r.Function)
			}
		}
	}
	router, err := api.NewRouter(p.API, only, handlers)
	if err != nil {
		return nil, fmt.Errorf("routes: %w", err)
	}
	return append(all, Built{Function: Function{Name: part, Kind: HTTP}, Handler: t.Middleware(part, router)}), nil
}

// InProcess gives the functions that take events, for the embedded broker.
func InProcess(all []Built) events.InProcess {
	handlers := events.InProcess{}
	for _, b := range all {
		if b.Kind == Event || b.Kind == Cron {
			handlers[b.Name] = b.Handler
		}
	}
	return handlers
}

// Router is what a process answers on its listener: each HTTP function on its
// paths. With takesEvents, the functions for events are reached too: a function
// that is alone gets every POST to /, as Knative delivers to its Service; of
// several, each has /events/<name>, and / goes by the routes. Without it they are
// reached by the embedded broker only, and nobody can forge an event.
func Router(all []Built, routes *events.Routes, takesEvents bool) http.Handler {
	mux := chi.NewMux()
	for _, b := range all {
		if b.Kind == Foreign {
			mux.Handle(b.Path+"/*", alone(b.Handler))
		}
		if b.Kind != HTTP {
			continue
		}
		mux.NotFound(alone(b.Handler))
		mux.MethodNotAllowed(alone(b.Handler))
	}
	if !takesEvents {
		return logged(mux)
	}
	handlers := InProcess(all)
	switch len(handlers) {
	case 0:
	case 1:
		for _, h := range handlers {
			mux.Method(http.MethodPost, "/", alone(h))
		}
	default:
		for name, h := range handlers {
			mux.Method(http.MethodPost, "/events/"+name, alone(h))
		}
		mux.Method(http.MethodPost, "/", alone(events.Handler(forward(routes, handlers))))
	}
	return logged(mux)
}

// forward hands an event to the functions whose Triggers it passes or, if it is
// a tick, to the sink of its PingSource.
func forward(routes *events.Routes, handlers events.InProcess) func(context.Context, event.Event) error {
	return func(ctx context.Context, e event.Event) error {
		return events.Forward(ctx, routes, handlers, e)
	}
}

// alone lets a handler that routes by chi itself start from the whole path, as
// it does when it has the process to itself.
func alone(h http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, nil)))
	}
}

// logged writes one line for each request, with the id that the answer carries.
func logged(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		seen := &statusWriter{ResponseWriter: w}
		h.ServeHTTP(seen, r)
		attrs := []slog.Attr{
			slog.String("method", r.Method), slog.String("path", r.URL.Path),
			slog.Int("status", seen.status), slog.Float64("ms", float64(time.Since(began).Microseconds())/1000),
		}
		if id := w.Header().Get("X-Openstack-Request-Id"); id != "" {
			attrs = append(attrs, slog.String("request_id", id))
		}
		if typ := r.Header.Get("Ce-Type"); typ != "" {
			attrs = append(attrs, slog.String("event", r.Header.Get("Ce-Id")), slog.String("type", typ))
		}
		slog.LogAttrs(r.Context(), slog.LevelInfo, "request", attrs...)
	})
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (s *statusWriter) WriteHeader(status int) {
	if s.status == 0 || s.status < 200 {
		s.status = status
	}
	s.ResponseWriter.WriteHeader(status)
}

func (s *statusWriter) Write(b []byte) (int, error) {
	if s.status == 0 {
		s.status = http.StatusOK
	}
	return s.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach what is below.
func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Flush is asked for by handlers that go on after their answer has left.
func (s *statusWriter) Flush() { _ = http.NewResponseController(s.ResponseWriter).Flush() }

// names lists the functions' names, for people.
func names(functions []Function) string {
	var list []string
	for _, f := range functions {
		list = append(list, f.Name)
	}
	return strings.Join(list, " ")
}

// Pick gives the functions of these names, in the order of all.
func Pick(all []Function, wanted []string) ([]Function, error) {
	known := map[string]bool{}
	for _, f := range all {
		known[f.Name] = false
	}
	for _, name := range wanted {
		if _, ok := known[name]; !ok {
			return nil, fmt.Errorf("there is no function %q; there are: %s", name, names(all))
		}
		known[name] = true
	}
	var picked []Function
	for _, f := range all {
		if known[f.Name] {
			picked = append(picked, f)
		}
	}
	return picked, nil
}
