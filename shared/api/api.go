// Package api is everything that the HTTP functions share, so that a handler
// only authorises, decodes, does one domain call and renders: the table of
// routes, the middleware, microversions, Magnum's error body, the decoder of
// bodies, JSON-Patch, lists, links and conditional requests.
//
// What a client sees is Magnum's (spec/api.md); where a PEER BUG box stands
// there, its number is cited and the better answer is given.
//
// The package decides nothing about clusters: no policy, no SQL, no gate.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"carafe/shared/identity"
)

// Handler answers one request. An error that it returns before it has written
// becomes Magnum's error body (see Status for the one table); an error after
// the answer has left is only logged.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Authenticator says who sent a request. A fault of kind Unauthenticated
// becomes Keystone's 401, one of kind Unavailable a 503 of the same shape.
type Authenticator interface {
	Authenticate(r *http.Request) (identity.Caller, error)
}

// Config is what the host decides for the API.
type Config struct {
	// Authenticator is required.
	Authenticator Authenticator
	// IsAdmin evaluates the policy rule context_is_admin; nil means nobody is.
	IsAdmin func(context.Context, identity.Caller) bool
	// PublicRoutes need no token (api-paste.ini, acl_public_routes). A path
	// with .json behind it is as public as the path.
	PublicRoutes []string
	// WWWAuthenticate is the Keystone address that a 401 names
	// (magnum.conf [keystone_authtoken] www_authenticate_uri).
	WWWAuthenticate string
	// ProxyHeaders trusts Forwarded and X-Forwarded-* for the links in bodies
	// (magnum.conf [oslo_middleware] enable_proxy_headers_parsing).
	ProxyHeaders bool
	// CORS answers browsers; the zero value allows no origin.
	CORS CORS
	// MaxBody limits a request body in bytes; 0 means 1 MiB.
	MaxBody int64
	// MaxLimit caps a page of a list (magnum.conf [api] max_limit); 0 means 1000.
	MaxLimit int
	// Log gets one record for each answer of 500 and each panic; nil means slog.Default.
	Log *slog.Logger
	// Now is for tests; nil means time.Now.
	Now func() time.Time
}

// DefaultPublicRoutes are Magnum's, and Carafe's own description of itself.
var DefaultPublicRoutes = []string{"/", "/v1", "/v1/openapi.json"}

// All is the name of no function: it asks NewRouter for the whole API.
const All = ""

func (c *Config) withDefaults() Config {
	d := *c
	if d.PublicRoutes == nil {
		d.PublicRoutes = DefaultPublicRoutes
	}
	if d.MaxBody <= 0 {
		d.MaxBody = 1 << 20
	}
	if d.MaxLimit <= 0 {
		d.MaxLimit = 1000
	}
	if d.Log == nil {
		d.Log = slog.Default()
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.IsAdmin == nil {
		d.IsAdmin = func(context.Context, identity.Caller) bool { return false }
	}
	return d
}
