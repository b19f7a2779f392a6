package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"carafe/shared/driver/simulated"
	"carafe/shared/events"
	"carafe/shared/function"
	"carafe/shared/telemetry"
	"carafe/triggers"
)

// quiet is how long a Knative function serves on after SIGTERM while requests
// still come. Queue-proxy has drained by then (its preStop hook holds the signal
// back); this is for what it has just let through.
const quiet = time.Second

// mode is what the process is to the world.
type mode struct {
	functions []function.Function
	// whole: all functions, with the embedded broker and clock. Events stay inside.
	whole bool
}

// serve serves carafe serve.
func serve(ctx context.Context, names []string, out io.Writer) error {
	env, err := environment()
	if err != nil {
		return err
	}
	log := env.Log()
	slog.SetDefault(log)
	// Requests leave much garbage and little that stays: a list 40 KiB and nothing.
	const usual = 100
	if was := debug.SetGCPercent(2 * usual); was != usual { // GOGC says otherwise
		debug.SetGCPercent(was)
	}
	m := mode{functions: all, whole: len(names) == 0 && env.Sink.URL == ""}
	if len(names) > 0 {
		if m.functions, err = function.Pick(all, names); err != nil {
			return err
		}
	}
	routes, err := events.ReadRoutes(triggers.FS)
	if err != nil {
		return err
	}
	if env.TickEvery > 0 {
		routes.Every(env.TickEvery)
	}
	if !m.whole && env.Database.URL == "" {
		return errors.New("CARAFE_DATABASE_URL is not set: only carafe serve without names, and without K_SINK, brings a PostgreSQL of its own")
	}
	listener, err := listen(env.Listen)
	if err != nil {
		return err
	}
	defer listener.Close()

	db, err := openDatabase(ctx, env)
	if err != nil {
		return err
	}
	defer db.close()
	if m.whole {
		if err := db.upToDate(ctx); err != nil {
			return err
		}
	}
	t, err := telemetry.Start(ctx, env.Telemetry)
	if err != nil {
		return oneLine(err)
	}
	h := &host{mode: m, env: env, routes: routes, db: db, telemetry: t, owner: function.Owner()}
	if err := h.build(ctx); err != nil {
		return err
	}
	if m.whole {
		welcome(out, listener.Addr().String(), env, db)
	} else {
		slog.InfoContext(ctx, "serving", "functions", len(m.functions), "address", listener.Addr().String())
	}
	return h.run(ctx, listener)
}

// listen takes the address, or says in one line why not.
func listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is in use: stop what listens there, or set CARAFE_LISTEN to another address, such as 127.0.0.1:9512", address)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("this user may not listen on %s: set CARAFE_LISTEN to a port above 1023", address)
	case err != nil:
		return nil, fmt.Errorf("CARAFE_LISTEN: %w", oneLine(err))
	}
	return l, nil
}

// host is what runs in this process.
type host struct {
	mode
	env       *function.Env
	routes    *events.Routes
	db        *database
	telemetry *telemetry.Telemetry
	owner     string

	built     []function.Built
	inProcess events.InProcess
	broker    *events.Broker      // of the whole only
	endpoint  *simulated.Endpoint // of the whole only, with that driver
}

// build makes the publisher, the platform and then the functions on it.
func (h *host) build(ctx context.Context) error {
	h.inProcess = events.InProcess{}
	publisher, err := h.publisher(ctx)
	if err != nil {
		return err
	}
	p, err := function.NewPlatform(ctx, h.env, h.db.DB, publisher, h.owner, h.telemetry)
	if err != nil {
		return oneLine(err)
	}
	if h.whole {
		if h.endpoint, err = function.HostSimulated(ctx, p); err != nil {
			return oneLine(err)
		}
	}
	if h.built, err = function.Build(ctx, h.functions, p, h.telemetry); err != nil {
		return err
	}
	maps.Copy(h.inProcess, function.InProcess(h.built))
	return nil
}

// publisher is how events leave: to the broker that K_SINK names, to the one in
// this process, or not at all.
func (h *host) publisher(ctx context.Context) (events.Publisher, error) {
	switch {
	case h.env.Sink.URL != "":
		sender, err := events.NewSender(h.env.Sink)
		if err != nil {
			return nil, oneLine(err)
		}
		return &events.SinkPublisher{Outbox: h.db.Events, Sender: sender, Owner: h.owner, Now: time.Now}, nil
	case h.whole:
		h.broker = events.NewBroker(h.db.Events, h.routes, h.inProcess, h.owner, h.env.EventLease, time.Now)
		return h.broker, nil
	default:
		slog.InfoContext(ctx, "K_SINK is not set: events wait in the database until a process with a broker sends them")
		return events.Unattended{}, nil
	}
}

// run serves until the context ends and everything in flight is done.
func (h *host) run(ctx context.Context, listener net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	s := &function.Server{
		Handler: function.Router(h.built, h.routes, !h.whole),
		Ready:   h.db.Ready,
		Grace:   h.env.Grace,
	}
	if h.env.Service != "" {
		s.Quiet = quiet
	}
	// In a pod of Knative's nobody sits at a browser, and requests that its proxy lets
	// through name the function's host.
	if h.env.AuthStrategy == "noauth" && h.env.Service == "" {
		s.Handler = function.LocalOnly(s.Handler)
	}
	group.Go(func() error { return s.Serve(ctx, listener) })
	group.Go(func() error { return h.telemetry.Serve(ctx) })
	if h.whole {
		clock := events.NewClock(h.routes, h.inProcess)
		group.Go(func() error { h.broker.Run(ctx); return nil })
		group.Go(func() error { clock.Run(ctx); return nil })
	}
	if h.endpoint != nil {
		group.Go(func() error { return h.endpoint.Serve(ctx) })
	}
	if h.db.own != nil {
		group.Go(func() error {
			select {
			case <-h.db.own.Done():
				return fmt.Errorf("PostgreSQL has ended; its log is %s", h.db.own.Log())
			case <-ctx.Done():
				return nil
			}
		})
	}
	err := group.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := h.telemetry.Shutdown(last); err != nil {
		slog.WarnContext(last, "telemetry's last push", "err", err)
	}
	return err
}
