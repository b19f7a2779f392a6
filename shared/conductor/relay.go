package conductor

import (
	"context"
	"errors"
	"log/slog"

	"carafe/shared/fault"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
)

// relayBatch bounds what one tick takes; the next tick takes the rest.
const relayBatch = 200

// Expire ends the operations that are past their deadline: nothing stays in
// progress for ever (PB-43). It returns how many it ended.
func (c *Conductor) Expire(ctx context.Context) (int, error) {
	overdue, err := c.DB.Operations.Overdue(ctx, c.Now(), relayBatch)
	if err != nil {
		return 0, err
	}
	ended := 0
	for _, o := range overdue {
		if err := c.expire(ctx, o); err != nil {
			slog.ErrorContext(ctx, "end overdue operation", "operation", o.ID, "cluster", o.ClusterID, "err", err)
			continue
		}
		ended++
	}
	return ended, ctx.Err()
}

func (c *Conductor) expire(ctx context.Context, o magnum.Operation) error {
	now := c.Now()
	err := c.DB.InTx(ctx, func(tx *postgres.Store) error {
		if ofFederation(o.Kind) {
			return c.closeFederation(ctx, tx, o, postgres.Move{To: magnum.FailedOp, Error: fault.Text(overdue(o, nil)),
				ErrorCode: string(fault.ReasonTimeout)}, "FAILED", now)
		}
		cluster, err := tx.Clusters.Lock(ctx, o.ClusterID)
		if fault.Is(err, fault.NotFound) {
			return tx.Operations.Move(ctx, o, postgres.Move{To: magnum.FailedOp, Error: "The cluster is gone."}, now)
		}
		if err != nil {
			return err
		}
		s, err := load(ctx, tx, cluster)
		if err != nil {
			return err
		}
		if o.SupersededBy != nil { // its end is no failure of what replaced it
			if err := c.replaced(ctx, tx, s, o, now); err != nil {
				return err
			}
			return c.wakeNext(ctx, tx, o.ClusterID, now)
		}
		why := overdue(o, s)
		return c.endAlone(ctx, tx, s, Ending{Operation: o, Failed: true, Reason: fault.Text(why), Code: string(fault.ReasonOf(why))}, now)
	})
	if errors.Is(err, postgres.ErrMoved) { // it has moved on since it was found
		return nil
	}
	return err
}

// Repost publishes the commands of operations that nobody works on although they
// are due: the event got lost, or the handler died. It returns how many.
func (c *Conductor) Repost(ctx context.Context) (int, error) {
	now := c.Now()
	stranded, err := c.DB.Operations.Stranded(ctx, now.Add(-c.Settings.SyncInterval), now, relayBatch)
	if err != nil {
		return 0, err
	}
	for _, o := range stranded {
		slog.WarnContext(ctx, "operation found without a handler", "operation", o.ID, "kind", o.Kind, "cluster", o.ClusterID, "state", o.State)
		if err := c.DB.Events.Add(ctx, c.command(o, now)); err != nil {
			return 0, err
		}
	}
	return len(stranded), nil
}

// Forget deletes history that is older than the retention, and answers kept for
// an Idempotency-Key after their day.
func (c *Conductor) Forget(ctx context.Context) error {
	now := c.Now()
	if err := c.DB.Idempotency.Forget(ctx, now.Add(-idempotencyLife)); err != nil {
		return err
	}
	if c.Settings.Retention <= 0 {
		return nil
	}
	before := now.Add(-c.Settings.Retention)
	if _, err := c.DB.Operations.Forget(ctx, before, relayBatch); err != nil {
		return err
	}
	_, err := c.DB.Events.Forget(ctx, before, relayBatch)
	return err
}
