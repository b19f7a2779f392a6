package function

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"knative.dev/pkg/network/handlers"
)

// Limits of one connection and request. A request to an event function may take
// as long as Knative lets it (timeoutSeconds, 300 s).
const (
	headerTimeout = 10 * time.Second
	readTimeout   = 60 * time.Second
	writeTimeout  = 310 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10 // a PKI token is the largest header that is known
	readyTimeout  = 3 * time.Second
)

// Paths of the probes. They are the host's, not a function's: nothing of Magnum
// is there.
const (
	LivePath  = "/livez"
	ReadyPath = "/readyz"
)

// Server answers requests on one listener.
type Server struct {
	// Handler gets all requests but probes.
	Handler http.Handler
	// Ready says why the process must not get requests now; nil: it may. That it
	// lives depends on nothing: a database that is away is no reason to restart.
	Ready func(context.Context) error
	// Quiet is how long to go on serving after the context's end, until no request
	// has come for so long: routers learn late that a process goes. Zero: not at all.
	Quiet time.Duration
	// Grace is how long requests in flight may take after that.
	Grace time.Duration
}

// Serve answers until the context ends, and then what is in flight. Knative's
// Drainer answers the probes of kubelet and queue-proxy, whatever their path, and
// fails them from the moment of the drain.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	drainer := &handlers.Drainer{Inner: s.routes(), HealthCheck: s.probe, QuietPeriod: s.Quiet}
	server := &http.Server{
		Handler:           drainer,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	if s.Quiet > 0 {
		drainer.Drain()
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Grace)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		_ = server.Close()
		return fmt.Errorf("requests were cut off %s after the process was told to stop: %w", s.Grace, err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// routes answers the probes of those who do not say that they are one.
func (s *Server) routes() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case LivePath, ReadyPath:
			s.probe(w, r)
		default:
			s.Handler.ServeHTTP(w, r)
		}
	})
}

// probe answers by the path: /livez with 200 always, any other with readiness.
func (s *Server) probe(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == LivePath || s.Ready == nil {
		fmt.Fprintln(w, "ok")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	if err := s.Ready(ctx); err != nil {
		slog.WarnContext(ctx, "not ready", "err", err)
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}
