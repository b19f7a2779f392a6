package api

import (
	"context"
	"net/http"
)

// request is what the middleware learns of a request; one allocation holds it.
type request struct {
	cfg      *Config
	version  Version
	shown    string // the version as asked for
	endpoint *endpoint
	params   [3]string // of the path, in the order of endpoint.keys
	args     []arg     // in the order of the route's Query
	raw      []byte    // the body
	app      string    // what links begin with
	w        answer
}

// answer remembers whether a handler has begun its answer.
type answer struct {
	http.ResponseWriter
	begun bool
}

func (a *answer) WriteHeader(status int) {
	if status >= 200 { // 1xx are not the answer yet
		a.begun = true
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

type requestKey struct{}

func requestOf(ctx context.Context) *request {
	rq, _ := ctx.Value(requestKey{}).(*request)
	return rq
}

// URL is the application's: scheme, host and prefix, without a slash at the end.
func URL(ctx context.Context) string {
	if rq := requestOf(ctx); rq != nil {
		return rq.app
	}
	return ""
}

// Path is a parameter of the request's path, by Magnum's name for it.
func Path(r *http.Request, name string) string {
	if rq := requestOf(r.Context()); rq != nil && rq.endpoint != nil {
		for i, k := range rq.endpoint.keys {
			if k == name {
				return rq.params[i]
			}
		}
	}
	return ""
}

// RouteOf is the request's row of the table; nil outside of one.
func RouteOf(ctx context.Context) *Route {
	if rq := requestOf(ctx); rq != nil && rq.endpoint != nil {
		return rq.endpoint.route
	}
	return nil
}

// Raw is the body of the request as it came; nil if there was none.
func Raw(r *http.Request) []byte {
	if rq := requestOf(r.Context()); rq != nil {
		return rq.raw
	}
	return nil
}
