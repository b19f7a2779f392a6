// Package function runs functions: it reads their settings, gives them what the
// process shares, serves them over HTTP and drains them. What a function does is
// in its own package under functions/; no function knows what hosts it.
package function

import (
	"context"
	"net/http"
)

// Kind says how a function is called.
type Kind int

const (
	HTTP  Kind = iota // by clients, on the paths that Paths names
	Event             // by a broker, with one CloudEvent
	Cron              // by a PingSource's tick, and by events of its own
)

// String is the kind in words.
func (k Kind) String() string { return [...]string{"http", "event", "cron"}[k] }

// Function is one deployable unit: one Knative Service.
type Function struct {
	// Name is a DNS label; it equals the name of the Knative Service and of the
	// folder under functions/.
	Name string
	Kind Kind
	// Paths are what an HTTP function answers, as chi patterns: "/v1/quotas" and
	// "/v1/quotas/*". The handler gets the whole path. Empty for other kinds.
	Paths []string
	// Build makes the handler, once, before anything is served. It reads the
	// function's own settings (ReadConfig) and keeps what it needs of p.
	Build func(ctx context.Context, p *Platform) (http.Handler, error)
}
