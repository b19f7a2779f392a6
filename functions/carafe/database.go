package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"
	"time"

	"carafe/shared/events"
	"carafe/shared/function"
	"carafe/shared/postgres"
	"carafe/shared/postgres/server"
)

// reachTimeout bounds the wait for a database at the start.
const reachTimeout = 10 * time.Second

// database is an open database and, if the process brought its own, its server.
type database struct {
	*postgres.DB
	own *server.Server
}

// openDatabase opens the database that CARAFE_DATABASE_URL names or, without
// one, starts a PostgreSQL of this process's own.
func openDatabase(ctx context.Context, env *function.Env) (*database, error) {
	d := &database{}
	if env.Database.URL == "" {
		own, err := server.Start(ctx, server.Config{
			Dir: env.Dir, Binaries: env.PostgresBinaries,
			Notice: func(format string, args ...any) { slog.InfoContext(ctx, fmt.Sprintf(format, args...)) },
		})
		if err != nil {
			return nil, oneLine(err)
		}
		d.own, env.Database.URL = own, own.URL()
	}
	db, err := postgres.Open(ctx, env.Database)
	if err != nil {
		d.close()
		return nil, oneLine(err)
	}
	d.DB = db
	return d, nil
}

// close ends the connections, and the server if it is ours.
func (d *database) close() {
	if d.DB != nil {
		d.DB.Close()
	}
	if d.own != nil {
		if err := d.own.Stop(); err != nil {
			slog.Error("stop PostgreSQL", "err", err)
		}
	}
}

// where says for people which database it is.
func (d *database) where() string {
	if d.own == nil {
		return "the one that CARAFE_DATABASE_URL names"
	}
	return fmt.Sprintf("PostgreSQL %s, started here, data in %s", d.own.Version, d.own.Data)
}

// upToDate sees to it that the schema is what this program needs. Asking comes
// first: it takes a millisecond, and a migration's lock takes longer.
func (d *database) upToDate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	reach, cancelReach := context.WithTimeout(ctx, reachTimeout)
	defer cancelReach()
	version, err := d.SchemaVersion(reach)
	if err != nil {
		return oneLine(fmt.Errorf("the database cannot be reached: %w; see CARAFE_DATABASE_URL", err))
	}
	need, err := postgres.RequiredVersion()
	if err != nil {
		return err
	}
	if version >= need {
		return nil
	}
	if err := d.Migrate(ctx); err != nil {
		return oneLine(fmt.Errorf("the database's schema cannot be brought up to date: %w", err))
	}
	return nil
}

// migrate serves carafe migrate.
func migrate(ctx context.Context, args []string, out io.Writer) error {
	if len(args) != 1 || (args[0] != "up" && args[0] != "status") {
		return errors.New("carafe migrate takes one word: up or status")
	}
	env, err := environment()
	if err != nil {
		return err
	}
	slog.SetDefault(env.Log())
	db, err := openDatabase(ctx, env)
	if err != nil {
		return err
	}
	defer db.close()
	if args[0] == "up" {
		if err := db.upToDate(ctx); err != nil {
			return err
		}
		version, err := db.SchemaVersion(ctx)
		if err != nil {
			return oneLine(err)
		}
		fmt.Fprintf(out, "the schema is at version %d\n", version)
		return nil
	}
	reach, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	migrations, err := db.MigrationStatus(reach)
	if err != nil {
		return oneLine(fmt.Errorf("the database cannot be reached: %w; see CARAFE_DATABASE_URL", err))
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, m := range migrations {
		state := "pending"
		if m.Applied {
			state = "applied"
		}
		fmt.Fprintf(w, "%d\t%s\t%s\n", m.Version, m.Source, state)
	}
	return w.Flush()
}

// openPlatform gives a command what functions share. It publishes nothing: events
// wait for a process with a broker. The caller calls the function when it is done.
func openPlatform(ctx context.Context) (*function.Platform, func(), error) {
	env, err := environment()
	if err != nil {
		return nil, nil, err
	}
	db, err := openDatabase(ctx, env)
	if err != nil {
		return nil, nil, err
	}
	p, err := function.NewPlatform(ctx, env, db.DB, events.Unattended{}, function.Owner(), nil)
	if err != nil {
		db.close()
		return nil, nil, oneLine(err)
	}
	return p, db.close, nil
}
