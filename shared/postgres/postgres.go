// Package postgres is the only place that speaks SQL. Static statements are in
// queries/, compiled by sqlc; lists, whose order the caller chooses among fixed
// columns, are put together in page.go.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"carafe/shared/fault"
	"carafe/shared/postgres/internal/sqlc"
)

// Config is the database's part of the environment.
type Config struct {
	// URL is a PostgreSQL connection string, libpq's or a postgres:// URL.
	URL string `envconfig:"CARAFE_DATABASE_URL"`
	// MaxConns bounds the connections of one process.
	MaxConns int32 `envconfig:"CARAFE_DATABASE_MAX_CONNS" default:"16"`
	// Statements says how queries are sent: "prepare" keeps prepared statements on
	// each connection (PgBouncer in transaction mode needs max_prepared_statements,
	// its default since 1.24), "describe" sends each unnamed, for older poolers.
	Statements string `envconfig:"CARAFE_DATABASE_STATEMENTS" default:"prepare"`
}

// DB is a pool of connections, and the statements over it.
type DB struct {
	Store
	pool *pgxpool.Pool
}

// Store is every aggregate over one connection: the pool's, or a transaction's.
type Store struct {
	Templates   Templates
	Clusters    Clusters
	NodeGroups  NodeGroups
	Quotas      Quotas
	Federations Federations
	Operations  Operations
	Events      Events
	Ticks       Ticks
	Simulations Simulations
	Idempotency Idempotency
	Functions   Functions
	Secrets     Secrets

	tx *transaction // nil over the pool
}

// OnCommit has fn run once what the transaction did has come to stay; without a
// transaction that is now.
func (s *Store) OnCommit(fn func()) {
	if s.tx == nil {
		fn()
		return
	}
	s.tx.committed = append(s.tx.committed, fn)
}

// querier is what the pool and a transaction have in common.
type querier interface {
	sqlc.DBTX
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

func storeOver(q querier, l later) Store {
	s := sqlc.New(q)
	return Store{
		Templates: Templates{q, s}, Clusters: Clusters{q, s, l}, NodeGroups: NodeGroups{q, s, l}, Quotas: Quotas{q, s},
		Federations: Federations{q, s}, Operations: Operations{q, s, l}, Events: Events{q, s, l}, Ticks: Ticks{s, l},
		Simulations: Simulations{s}, Idempotency: Idempotency{s}, Functions: Functions{s}, Secrets: Secrets{q, s},
	}
}

// Open makes the pool without connecting yet: the first statement does. The
// caller closes it.
func Open(ctx context.Context, cfg Config) (*DB, error) { return OpenTraced(ctx, cfg, nil) }

// OpenTraced is Open for who wants to see each statement; a nil tracer sees none.
func OpenTraced(ctx context.Context, cfg Config, tracer pgx.QueryTracer) (*DB, error) {
	pc, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "CARAFE_DATABASE_URL is not a PostgreSQL connection string")
	}
	switch cfg.Statements {
	case "", "prepare":
		pc.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	case "describe":
		pc.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	default:
		return nil, fault.New(fault.Invalid, "CARAFE_DATABASE_STATEMENTS is %q; it takes prepare or describe", cfg.Statements)
	}
	if cfg.MaxConns > 0 {
		pc.MaxConns = cfg.MaxConns
	}
	if tracer != nil {
		pc.ConnConfig.Tracer = tracer
	}
	pc.MaxConnIdleTime = time.Minute
	if pc.ConnConfig.ConnectTimeout == 0 {
		pc.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	if _, ok := pc.ConnConfig.RuntimeParams["application_name"]; !ok {
		pc.ConnConfig.RuntimeParams["application_name"] = "carafe"
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("open the database pool: %w", err)
	}
	return &DB{Store: storeOver(pool, now(pool)), pool: pool}, nil
}

// Close ends all connections.
func (db *DB) Close() { db.pool.Close() }

// Ping asks the database for a sign of life.
func (db *DB) Ping(ctx context.Context) error { return classify(db.pool.Ping(ctx), "ping") }

// txAttempts bounds how often a transaction is tried again after PostgreSQL
// gave way to another (SQLSTATE 40001, 40P01; PB-03).
const txAttempts = 8

// begin has PostgreSQL end a transaction whose process has fallen silent (its machine
// is gone or frozen): it would hold its locks until TCP gives up, which takes hours.
// It goes with the BEGIN and not with the connection, which a pooler may share.
var begin = pgx.TxOptions{BeginQuery: `BEGIN; SET LOCAL idle_in_transaction_session_timeout = '10s'`}

// InTx runs fn in one transaction and commits if it returns nil. fn may run
// several times: it must not do anything outside of the transaction.
func (db *DB) InTx(ctx context.Context, fn func(tx *Store) error) error {
	for attempt := 1; ; attempt++ {
		var t transaction
		err := pgx.BeginTxFunc(ctx, db.pool, begin, func(tx pgx.Tx) error {
			t = transaction{Tx: tx, pending: &pgx.Batch{}}
			s := storeOver(&t, t.later)
			s.tx = &t
			if err := fn(&s); err != nil {
				return err
			}
			return t.flush(ctx)
		})
		if err == nil {
			for _, fn := range t.committed {
				fn()
			}
			return nil
		}
		if attempt == txAttempts || !givenWay(err) {
			return classify(err, "transaction")
		}
		wait := time.Duration(rand.Int64N(int64(10*time.Millisecond) << attempt))
		select {
		case <-ctx.Done():
			return classify(err, "transaction")
		case <-time.After(wait):
		}
	}
}

func givenWay(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01")
}

// classify turns what the driver says into the vocabulary of fault, once: an
// error that is one already passes as it is.
func classify(err error, what string) error {
	if err == nil {
		return nil
	}
	var f *fault.Error
	if errors.As(err, &f) {
		return err
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch {
		case pg.Code == "23505":
			return fault.Wrap(fault.Conflict, err, "Conflict.")
		case pg.Code == "57014": // cancelled: the request's time is over
			return fault.Wrap(fault.Unavailable, err, "The database did not answer in time.")
		case pg.Code[:2] == "08", pg.Code[:2] == "53", pg.Code[:2] == "57", pg.Code[:2] == "40":
			return fault.Wrap(fault.Unavailable, err, "The database is temporarily unavailable.")
		}
		return fmt.Errorf("%s: %w", what, err)
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) || pgconn.Timeout(err) || pgconn.SafeToRetry(err) || errors.Is(err, context.DeadlineExceeded) {
		return fault.Wrap(fault.Unavailable, err, "The database is temporarily unavailable.")
	}
	return fmt.Errorf("%s: %w", what, err)
}

// violates reports whether err is a violation of the named constraint.
func violates(err error, constraint string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.ConstraintName == constraint
}

// noRows reports whether a statement that returns one row found none.
func noRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }
