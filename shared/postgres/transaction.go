package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"carafe/shared/postgres/internal/sqlc"
)

// transaction sends what nobody waits for the result of together, in one trip:
// ahead of the next statement that is asked something, and before the commit.
// An error of such a statement comes up there.
type transaction struct {
	pgx.Tx
	pending   *pgx.Batch
	committed []func()
}

// later is where a statement goes whose result nobody waits for. check, if not
// nil, is asked whether what it did is what was meant.
type later func(check check) *sqlc.Queries

// check looks at how many rows a statement has changed.
type check func(pgconn.CommandTag) error

// one tells whether a statement found its row, with the error if it did not.
func one(otherwise error) check {
	return func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() == 1 {
			return nil
		}
		return otherwise
	}
}

func (t *transaction) later(check check) *sqlc.Queries { return sqlc.New(queue{t.pending, check}) }

// now is the same for the pool, where each statement stands alone.
func now(q querier) later {
	return func(check check) *sqlc.Queries { return sqlc.New(checked{q, check}) }
}

// checked sends a statement at once.
type checked struct {
	querier
	check check
}

func (c checked) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	tag, err := c.querier.Exec(ctx, sql, args...)
	if err == nil && c.check != nil {
		err = c.check(tag)
	}
	return tag, err
}

// queue keeps statements for one trip.
type queue struct {
	batch *pgx.Batch
	check check
}

func (q queue) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	queued := q.batch.Queue(sql, args...)
	if q.check != nil {
		queued.Exec(q.check)
	}
	return pgconn.CommandTag{}, nil
}

var errQueued = errors.New("a statement that returns rows cannot wait")

func (queue) Query(context.Context, string, ...any) (pgx.Rows, error) { return nil, errQueued }
func (queue) QueryRow(context.Context, string, ...any) pgx.Row        { return failed{errQueued} }

// failed is the row of a statement that was never sent.
type failed struct{ err error }

func (f failed) Scan(...any) error { return f.err }

func (t *transaction) flush(ctx context.Context) error {
	if t.pending.Len() == 0 {
		return nil
	}
	batch := *t.pending
	*t.pending = pgx.Batch{}
	return t.Tx.SendBatch(ctx, &batch).Close()
}

func (t *transaction) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := t.flush(ctx); err != nil {
		return pgconn.CommandTag{}, err
	}
	return t.Tx.Exec(ctx, sql, args...)
}

func (t *transaction) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := t.flush(ctx); err != nil {
		return nil, err
	}
	return t.Tx.Query(ctx, sql, args...)
}

func (t *transaction) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := t.flush(ctx); err != nil {
		return failed{err}
	}
	return t.Tx.QueryRow(ctx, sql, args...)
}

// together sends what fn queues in one trip. Outside of a transaction all of it
// counts, or nothing.
func together(ctx context.Context, q querier, fn func(later)) error {
	var batch pgx.Batch
	fn(func(check check) *sqlc.Queries { return sqlc.New(queue{&batch, check}) })
	return q.SendBatch(ctx, &batch).Close()
}

func (t *transaction) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	both := pgx.Batch{QueuedQueries: append(t.pending.QueuedQueries, b.QueuedQueries...)}
	*t.pending = pgx.Batch{}
	return t.Tx.SendBatch(ctx, &both)
}
