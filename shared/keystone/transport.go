package keystone

import (
	"log/slog"
	"net/http"
	"time"

	"carafe/shared/identity"
)

// maxAnswer bounds what is read of one answer, in bytes.
const maxAnswer = 8 << 20

// transport is under every call to OpenStack: it passes the id on that
// all services know the request by (B02), bounds the answer and leaves a line in the debug log. Headers and bodies are
// never logged: they hold tokens and secrets.
type transport struct{ next http.RoundTripper }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if id := identity.GlobalRequestID(r.Context()); id != "" {
		r = r.Clone(r.Context())
		r.Header.Set("X-OpenStack-Request-Id", id)
	}
	start := time.Now()
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		slog.DebugContext(r.Context(), "openstack call", "method", r.Method, "host", r.URL.Host,
			"path", r.URL.Path, "took", time.Since(start), "err", err)
		return nil, err
	}
	slog.DebugContext(r.Context(), "openstack call", "method", r.Method, "host", r.URL.Host,
		"path", r.URL.Path, "took", time.Since(start), "status", resp.StatusCode,
		"their_request_id", resp.Header.Get("X-OpenStack-Request-Id"))
	resp.Body = http.MaxBytesReader(nil, resp.Body, maxAnswer)
	return resp, nil
}
