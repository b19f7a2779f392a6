// Package function runs functions: it reads their settings, gives them what the
// process shares, serves them over HTTP and drains them. What a function does is
// in its own package under functions/; no function knows what hosts it.
package function

import (
	"context"
	"net/http"

	"carafe/shared/api"
)

// Kind says how a function is called.
type Kind int

const (
	HTTP    Kind = iota // by clients, on its routes in api.Routes
	Event               // by a broker, with one CloudEvent
	Cron                // by a PingSource's tick, and by events of its own
	Foreign             // by clients of another service, with that one's API below a path
)

// String is the kind in words.
func (k Kind) String() string { return [...]string{"http", "event", "cron", "http"}[k] }

// Function is one deployable unit: one Knative Service.
type Function struct {
	// Name is a DNS label; it equals the name of the Knative Service and of the
	// folder under functions/.
	Name string
	Kind Kind
	// Handlers makes the handlers of an HTTP function by operation, the names of
	// api.Routes, once, before anything is served. It reads the function's own
	// settings (ReadConfig) and keeps what it needs of p. Several functions in one
	// process share one router, and so answer as one API. Nil for other kinds.
	Handlers func(ctx context.Context, p *Platform) (map[string]api.Handler, error)
	// Path is where the API of a foreign function is, without a slash at the end.
	Path string
	// Build makes the handler of a function that takes events, or of a foreign one;
	// that one's is nil if it is switched off. Nil for HTTP.
	Build func(ctx context.Context, p *Platform) (http.Handler, error)
}
