package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"carafe/shared/driver/capi"
	"carafe/shared/events"
	"carafe/shared/function"
	"carafe/shared/keystone"
	"carafe/shared/postgres"
)

// stale is the age at which an event in the outbox is a sign of trouble: the
// relay looks every ten seconds.
const stale = time.Minute

// doctor looks at all that Carafe stands on, and says what is missing. It
// changes nothing.
func doctor(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 {
		return errors.New("carafe doctor takes no arguments")
	}
	env, err := environment()
	if err != nil {
		return err
	}
	if env.Database.URL == "" {
		return errors.New("CARAFE_DATABASE_URL is not set: carafe doctor looks at an installation, and not at a process that brings its own database")
	}
	e := &examination{out: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	db, err := openDatabase(ctx, env)
	if err != nil {
		return err
	}
	defer db.close()
	if e.database(ctx, db.DB) {
		e.outbox(ctx, db.DB, time.Now())
	}
	e.identity(ctx, env)
	e.driver(ctx, env, db.DB)
	if err := e.out.Flush(); err != nil {
		return err
	}
	if e.ailing > 0 {
		return fmt.Errorf("%d of %d are not well", e.ailing, e.seen)
	}
	return nil
}

// examination collects what was found.
type examination struct {
	out          *tabwriter.Writer
	seen, ailing int
}

func (e *examination) note(what string, well bool, format string, args ...any) bool {
	mark := "ok"
	if e.seen++; !well {
		mark = "NOT OK"
		e.ailing++
	}
	fmt.Fprintf(e.out, "%s\t%s\t%s\n", mark, what, strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " "))
	return well
}

// database looks at the schema; false: nothing more can be asked of it.
func (e *examination) database(ctx context.Context, db *postgres.DB) bool {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	have, err := db.SchemaVersion(ctx)
	if err != nil {
		return e.note("database", false, "%v; see CARAFE_DATABASE_URL", err)
	}
	want, err := postgres.RequiredVersion()
	if err != nil {
		return e.note("database", false, "%v", err)
	}
	if have < want {
		return e.note("database", false, "its schema is at version %d and must be at %d: run carafe migrate up", have, want)
	}
	return e.note("database", true, "reached, schema version %d", have)
}

// outbox looks at events that do not leave, and at those that nobody took.
func (e *examination) outbox(ctx context.Context, db *postgres.DB, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	waiting, oldest, err := db.Events.Lag(ctx, now)
	switch age := now.Sub(oldest).Round(time.Second); {
	case err != nil:
		e.note("outbox", false, "%v", err)
	case age > stale:
		e.note("outbox", false, "%d events wait, the oldest for %s: does the relay run, and does the broker take events?", waiting, age)
	default:
		e.note("outbox", true, "%d events wait", waiting)
	}
	letters, err := db.Events.DeadLetters(ctx)
	switch {
	case err != nil:
		e.note("dead letters", false, "%v", err)
	case letters > 0:
		e.note("dead letters", false, "%d events were not taken: see the table dead_letters for which, by whom and why", letters)
	default:
		e.note("dead letters", true, "none")
	}
}

// identity signs in as the service user, and looks up the services that
// validation asks.
func (e *examination) identity(ctx context.Context, env *function.Env) {
	if env.AuthStrategy == "noauth" {
		e.note("identity", true, "noauth")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	var c keystone.Config
	if err := function.ReadConfig(&c); err != nil {
		e.note("identity", false, "%v", err)
		return
	}
	k, err := keystone.New(c)
	if err != nil {
		e.note("identity", false, "%v", err)
		return
	}
	if _, err := k.ForService(ctx, keystone.Keystone); err != nil {
		e.note("identity", false, "the service user cannot sign in at %s: %v", env.KeystoneURL, err)
		return
	}
	e.note("identity", true, "the service user signs in at %s", env.KeystoneURL)
	for _, s := range []keystone.Service{keystone.Nova, keystone.Neutron, keystone.Glance} {
		client, err := k.ForService(ctx, s)
		if err != nil {
			e.note(s.Type, false, "%v", err)
			continue
		}
		e.note(s.Type, true, "%s", client.Endpoint)
	}
}

// driver makes the drivers as the functions do, and has the one that stands on
// a management cluster look at it.
func (e *examination) driver(ctx context.Context, env *function.Env, db *postgres.DB) {
	p, err := function.NewPlatform(ctx, env, db, events.Unattended{}, function.Owner(), nil)
	if err != nil {
		e.note("settings", false, "%v", err)
		return
	}
	for _, d := range p.Drivers.All() {
		name := "driver " + d.Describe().Name
		examined, ok := d.(interface {
			Doctor(context.Context) []capi.Finding
		})
		if !ok {
			e.note(name, true, "stands on nothing")
			continue
		}
		for _, f := range examined.Doctor(ctx) {
			e.note(name+": "+f.What, f.OK, "%s", f.Text)
		}
	}
}
