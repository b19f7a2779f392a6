package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"carafe/schema"
	"carafe/shared/fault"
)

// Migration is one step of the schema, applied or not.
type Migration struct {
	Version int64
	Source  string
	Applied bool
}

// Migrate brings the schema up to date. Processes that start together take
// turns under an advisory lock, and all but the first find nothing to do.
func (db *DB) Migrate(ctx context.Context) error {
	return db.withMigrations(func(p *goose.Provider) error {
		if _, err := p.Up(ctx); err != nil {
			return classify(fmt.Errorf("apply the migrations: %w", err), "migrate")
		}
		return nil
	})
}

// MigrationStatus lists all migrations that this program knows.
func (db *DB) MigrationStatus(ctx context.Context) ([]Migration, error) {
	var list []Migration
	err := db.withMigrations(func(p *goose.Provider) error {
		status, err := p.Status(ctx)
		if err != nil {
			return classify(fmt.Errorf("read the state of the migrations: %w", err), "migrate")
		}
		for _, s := range status {
			list = append(list, Migration{Version: s.Source.Version, Source: s.Source.Path, Applied: s.State == goose.StateApplied})
		}
		return nil
	})
	return list, err
}

func (db *DB) withMigrations(do func(*goose.Provider) error) error {
	std := stdlib.OpenDBFromPool(db.pool)
	defer std.Close()
	p, err := migrations(std)
	if err != nil {
		return err
	}
	return do(p)
}

func migrations(std *sql.DB) (*goose.Provider, error) {
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return nil, fmt.Errorf("make the migration lock: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, std, schema.Migrations, goose.WithSessionLocker(locker))
	if err != nil {
		return nil, fmt.Errorf("read the embedded migrations: %w", err)
	}
	return p, nil
}

// SchemaVersion is the newest migration that the database has; 0 for none.
func (db *DB) SchemaVersion(ctx context.Context) (int64, error) {
	var version int64
	err := db.pool.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`).Scan(&version)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "42P01" { // no such table: never migrated
		return 0, nil
	}
	return version, classify(err, "read the schema version")
}

// RequiredVersion is the newest migration that this program knows.
func RequiredVersion() (int64, error) {
	entries, err := schema.Migrations.ReadDir(".")
	if err != nil {
		return 0, fmt.Errorf("read the embedded migrations: %w", err)
	}
	var newest int64
	for _, e := range entries {
		v, err := goose.NumericComponent(e.Name())
		if err != nil {
			return 0, fmt.Errorf("migration %s: %w", e.Name(), err)
		}
		newest = max(newest, v)
	}
	return newest, nil
}

// Ready reports whether the database answers and has all that this program
// needs. A newer schema is fine: migrations add before they take away.
func (db *DB) Ready(ctx context.Context) error {
	have, err := db.SchemaVersion(ctx)
	if err != nil {
		return err
	}
	want, err := RequiredVersion()
	if err != nil {
		return err
	}
	if have < want {
		return fault.New(fault.Unavailable, "the database schema is at version %d and must be at %d: run carafe migrate up", have, want)
	}
	return nil
}
