package conductor

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"carafe/shared/driver"
	"carafe/shared/events"
	"carafe/shared/fault"
	"carafe/shared/identity"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
)

// A federation is not a cluster: it has no node groups, no secrets and nothing
// to observe. Its operations have one step, and end with it.

// Federator gives the driver of the federation's host cluster, if it can
// federate. Fault Invalid if it cannot: nothing is stored then (PB-38).
func (c *Conductor) Federator(host magnum.Cluster) (driver.Federator, error) {
	d, err := c.Drivers.Named(host.Driver)
	if err != nil {
		return nil, err
	}
	f, ok := d.(driver.Federator)
	if !ok {
		return nil, fault.New(fault.Invalid, "Federations are not supported by the driver %s of cluster %s.", host.Driver, host.UUID)
	}
	return f, nil
}

// AcceptFederation records an operation on a federation in the transaction in
// which store writes the row. What has not ended is superseded.
func (c *Conductor) AcceptFederation(ctx context.Context, caller identity.Caller, kind magnum.OperationKind, federationID string,
	store func(ctx context.Context, tx *postgres.Store) error) error {
	return c.DB.InTx(ctx, func(tx *postgres.Store) error {
		if err := store(ctx, tx); err != nil {
			return err
		}
		open, err := tx.Operations.Open(ctx, federationID)
		if err != nil {
			return err
		}
		s := &Subject{Cluster: magnum.Cluster{UUID: federationID}, Open: open}
		return c.record(ctx, tx, caller, Wish{Kind: kind, Supersedes: func(magnum.Operation) bool { return true }}, s, s)
	})
}

// FederationHandler makes the event function of a federation's operation.
func (c *Conductor) FederationHandler(kind magnum.OperationKind, do func(context.Context, driver.Federator, magnum.Federation) error) http.Handler {
	return events.Handler(func(ctx context.Context, e event.Event) error {
		var command Command
		if err := e.DataAs(&command); err != nil || command.OperationID == "" || command.ClusterID == "" {
			return fault.Wrap(fault.Invalid, err, "the data of a %s event must be {operation_id, cluster_uuid}", e.Type())
		}
		o, ok, err := c.claim(ctx, command)
		if err != nil || !ok {
			return err
		}
		ctx, stop := c.keepLease(ctx, o)
		defer stop()
		stepCtx, cancel := context.WithTimeout(ctx, c.Settings.StepTimeout)
		defer cancel()
		err = c.endFederation(ctx, o, c.federate(stepCtx, o, do))
		c.Published(ctx)
		return err
	}, events.CommandFor(kind))
}

func (c *Conductor) federate(ctx context.Context, o magnum.Operation, do func(context.Context, driver.Federator, magnum.Federation) error) error {
	f, err := c.DB.Federations.Get(ctx, postgres.Everything, postgres.Ident{UUID: o.ClusterID, Text: o.ClusterID})
	if err != nil {
		return err
	}
	host, err := c.DB.Clusters.Get(ctx, postgres.Everything, identOf(f.HostClusterID))
	if err != nil {
		return err
	}
	federator, err := c.Federator(host.Cluster)
	if err != nil {
		return err
	}
	return do(ctx, federator, f)
}

// identOf names the host cluster as the federation stores it: name or uuid.
func identOf(text string) postgres.Ident {
	if len(text) == 36 {
		return postgres.Ident{UUID: text, Text: text}
	}
	return postgres.Ident{Text: text}
}

// endFederation writes down how the operation went.
func (c *Conductor) endFederation(ctx context.Context, o magnum.Operation, result error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	now := c.Now()
	return c.DB.InTx(ctx, func(tx *postgres.Store) error {
		held, ok, err := tx.Operations.Hold(ctx, o)
		if err != nil || !ok {
			return err
		}
		switch {
		case held.SupersededBy != nil:
			c.count(ctx, tx, held, magnum.Superseded, now)
			err = tx.Operations.Move(ctx, held, postgres.Move{To: magnum.Superseded}, now)
		case result == nil:
			err = c.closeFederation(ctx, tx, held, postgres.Move{To: magnum.Succeeded}, "COMPLETE", now)
		case fault.Transient(result) && !past(held, now):
			due := now.Add(backoff(held.Attempt))
			slog.WarnContext(ctx, "operation will be tried again", "operation", o.ID, "kind", o.Kind, "federation", o.ClusterID, "due", due, "err", result)
			if err = tx.Operations.Move(ctx, held, postgres.Move{To: magnum.Pending, DueAt: due, Error: fault.Text(result)}, now); err != nil {
				return err
			}
			command := c.command(held, now)
			command.DueAt = due
			return tx.Events.Add(ctx, command)
		default:
			err = c.closeFederation(ctx, tx, held, postgres.Move{To: magnum.FailedOp, Error: fault.Text(result)}, "FAILED", now)
		}
		if err != nil {
			return err
		}
		return c.wakeNext(ctx, tx, o.ClusterID, now)
	})
}

func (c *Conductor) closeFederation(ctx context.Context, tx *postgres.Store, o magnum.Operation, m postgres.Move, ending string, now time.Time) error {
	if err := tx.Operations.Move(ctx, o, m, now); err != nil {
		return err
	}
	c.count(ctx, tx, o, m.To, now)
	f, err := tx.Federations.Lock(ctx, o.ClusterID)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if o.Kind == magnum.FederationDelete && m.To == magnum.Succeeded {
		return tx.Federations.Delete(ctx, f.UUID)
	}
	f.Status, f.StatusReason = f.Status.To(ending), nil
	if m.Error != "" {
		f.StatusReason = &m.Error
	}
	return tx.Federations.Update(ctx, &f, now)
}

// ofFederation tells operations on federations from those on clusters.
func ofFederation(kind magnum.OperationKind) bool { return notificationType(kind) == "" }
