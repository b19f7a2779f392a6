// Package carafe is the whole of Carafe as one Knative function, for those who build and
// deploy with func (func.yaml): the compact profile. It hosts what functions/carafe does
// when it is told to serve, with the broker that K_SINK names.
package carafe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"carafe/functions"
	"carafe/shared/events"
	"carafe/shared/function"
	"carafe/shared/postgres"
	"carafe/shared/telemetry"
	"carafe/triggers"
)

// Function answers the API, and the events that its subscriptions bring to /.
type Function struct {
	// started is set by Start, beside which the scaffolding serves already.
	started   atomic.Pointer[http.Handler]
	db        *postgres.DB
	telemetry *telemetry.Telemetry
}

// New is what func's scaffolding calls; it and the methods are named as that wants.
func New() *Function { return &Function{} }

// Start opens what the functions stand on and brings the schema up to date. The settings
// are the environment's, which is what func passes as the map.
func (f *Function) Start(ctx context.Context, _ map[string]string) error {
	var env function.Env
	if err := function.ReadConfig(&env); err != nil {
		return err
	}
	slog.SetDefault(env.Log())
	switch {
	case env.Database.URL == "":
		return errors.New("CARAFE_DATABASE_URL is not set")
	case env.Sink.URL == "":
		return errors.New("K_SINK is not set: it is the URL of the Broker, which kubectl get broker shows")
	}
	var err error
	if f.db, err = postgres.Open(ctx, env.Database); err != nil {
		return err
	}
	if err := f.db.Migrate(ctx); err != nil {
		return fmt.Errorf("the database's schema cannot be brought up to date: %w", err)
	}
	if f.telemetry, err = telemetry.Start(ctx, env.Telemetry); err != nil {
		return err
	}
	handler, err := f.build(ctx, &env)
	if err != nil {
		return err
	}
	f.started.Store(&handler)
	return nil
}

// build makes one handler of all functions.
func (f *Function) build(ctx context.Context, env *function.Env) (http.Handler, error) {
	sender, err := events.NewSender(env.Sink)
	if err != nil {
		return nil, err
	}
	owner := function.Owner()
	publisher := &events.SinkPublisher{Outbox: f.db.Events, Sender: sender, Owner: owner, Now: time.Now}
	platform, err := function.NewPlatform(ctx, env, f.db, publisher, owner, f.telemetry)
	if err != nil {
		return nil, err
	}
	built, err := function.Build(ctx, functions.All, platform, f.telemetry)
	if err != nil {
		return nil, err
	}
	routes, err := events.ReadRoutes(triggers.FS)
	if err != nil {
		return nil, err
	}
	return function.Router(built, routes, true), nil
}

// Handle answers one request or event.
func (f *Function) Handle(w http.ResponseWriter, r *http.Request) {
	handler := f.started.Load()
	if handler == nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	(*handler).ServeHTTP(w, r)
}

// Ready says whether the database answers and its schema is one that this program works
// with. That the process is alive depends on nothing.
func (f *Function) Ready(ctx context.Context) (bool, error) {
	if f.started.Load() == nil {
		return false, nil
	}
	if err := f.db.Ready(ctx); err != nil {
		return false, err
	}
	return true, nil
}

// Stop lets go of what Start opened; the scaffolding has drained the requests by then.
func (f *Function) Stop(ctx context.Context) error {
	err := f.telemetry.Shutdown(ctx)
	if f.db != nil {
		f.db.Close()
	}
	return err
}
