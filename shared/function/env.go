package function

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"carafe/shared/events"
	"carafe/shared/postgres"
	"carafe/shared/telemetry"
)

// Env is the environment that all processes share, whatever they host.
type Env struct {
	// Listen is host:port. Empty means 127.0.0.1:9511 (Magnum's port; magnum.conf
	// [api] host, port), and where Knative sets PORT, that port on all addresses.
	Listen string `envconfig:"CARAFE_LISTEN"`
	// Port is what Knative wants a function to listen on.
	Port string `envconfig:"PORT"`
	// Service is the name of the Knative Service that this process belongs to.
	Service string `envconfig:"K_SERVICE"`

	// AuthStrategy is keystone, or noauth: believe what a request says of its
	// sender, on loopback addresses only. Empty means keystone if
	// CARAFE_KEYSTONE_URL is set, else noauth.
	AuthStrategy string `envconfig:"CARAFE_AUTH_STRATEGY"`
	// KeystoneURL is read here only to tell which of the two is meant.
	KeystoneURL string `envconfig:"CARAFE_KEYSTONE_URL"`

	// Dir is where one process keeps its data when it brings its own PostgreSQL.
	Dir string `envconfig:"CARAFE_DIR" default:".carafe"`
	// PostgresBinaries is a directory with postgres and initdb, for the same case;
	// empty looks for one, and fetches one as a last resort.
	PostgresBinaries string `envconfig:"CARAFE_POSTGRES_BIN"`

	// EventLease is how long an event that the embedded broker was delivering when
	// its process died rests until another delivers it.
	EventLease time.Duration `envconfig:"CARAFE_EVENT_LEASE" default:"10s"`
	// TickEvery replaces the schedules of the embedded clock: for tests, which
	// would wait for it. 0 keeps the schedules.
	TickEvery time.Duration `envconfig:"CARAFE_TICK_EVERY"`

	// LogLevel is debug, info, warn or error.
	LogLevel slog.Level `envconfig:"CARAFE_LOG_LEVEL" default:"info"`
	// LogFormat is json or text; empty means text on a terminal, else json.
	LogFormat string `envconfig:"CARAFE_LOG_FORMAT"`
	// Grace is how long requests in flight may take when the process is told to
	// stop. Knative's own limit is the revision's timeoutSeconds.
	Grace time.Duration `envconfig:"CARAFE_SHUTDOWN_GRACE" default:"25s"`

	Database  postgres.Config
	Sink      events.Sink
	Telemetry telemetry.Config
}

// Validate checks what no single setting can know, and settles the defaults
// that depend on others.
func (e *Env) Validate() error {
	switch {
	case e.Listen != "":
	case e.Port != "":
		e.Listen = ":" + e.Port
	default:
		e.Listen = "127.0.0.1:9511"
	}
	switch e.AuthStrategy {
	case "keystone":
		if e.KeystoneURL == "" {
			return fmt.Errorf("CARAFE_KEYSTONE_URL is not set, and CARAFE_AUTH_STRATEGY is keystone")
		}
	case "noauth":
	case "":
		if e.AuthStrategy = "noauth"; e.KeystoneURL != "" {
			e.AuthStrategy = "keystone"
		}
	default:
		return fmt.Errorf("CARAFE_AUTH_STRATEGY is %q: it takes keystone or noauth", e.AuthStrategy)
	}
	switch e.LogFormat {
	case "json", "text":
	case "":
		e.LogFormat = "json"
		if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			e.LogFormat = "text"
		}
	default:
		return fmt.Errorf("CARAFE_LOG_FORMAT is %q: it takes json or text", e.LogFormat)
	}
	if e.Grace <= 0 {
		return fmt.Errorf("CARAFE_SHUTDOWN_GRACE is %s: it takes a time above zero", e.Grace)
	}
	host, _, err := net.SplitHostPort(e.Listen)
	if err != nil {
		return fmt.Errorf("CARAFE_LISTEN is %q: it takes host:port, such as 127.0.0.1:9511", e.Listen)
	}
	if e.AuthStrategy == "noauth" && !loopback(host) {
		return fmt.Errorf("noauth believes everyone, so it listens on a loopback address only, and not on %q: set CARAFE_LISTEN=127.0.0.1:9511, or CARAFE_KEYSTONE_URL", e.Listen)
	}
	return nil
}

// loopback reports whether the host can be reached from this machine only.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}

// Log makes the process's log: lines for machines on stderr, each with the ids
// that its context carries.
func (e *Env) Log() *slog.Logger {
	options := &slog.HandlerOptions{Level: e.LogLevel}
	var h slog.Handler = slog.NewJSONHandler(os.Stderr, options)
	if e.LogFormat == "text" {
		h = slog.NewTextHandler(os.Stderr, options)
	}
	return slog.New(telemetry.Logs(h))
}

// Owner names this process in leases: unique among all that share a database.
func Owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}
