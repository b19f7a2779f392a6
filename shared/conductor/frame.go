package conductor

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"carafe/shared/driver"
	"carafe/shared/events"
	"carafe/shared/fault"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
	"carafe/shared/telemetry"
)

// Step is one part of an operation. It may run any number of times: after a
// crash it is run again from its start, until it has been recorded.
type Step struct {
	Name string
	Do   func(ctx context.Context, r *Run) error
	// Await says that the step only begins something at the driver: the
	// operation waits, and the next step comes when statussync has seen it done.
	Await bool
}

// Run is one attempt at an operation, under a lease.
type Run struct {
	*Conductor
	Operation magnum.Operation
	Subject   *Subject
	Driver    driver.Driver
	finished  bool
	noAwait   bool
	accepted  func(*Subject) // what to change once the operation waits
}

// DoNotAwait says in a step that awaits the driver that there is nothing to wait for.
func (r *Run) DoNotAwait() { r.noAwait = true }

// Revoke takes an application credential back, where there is a Keystone.
func (r *Run) Revoke(ctx context.Context, userID, credentialID string) error {
	if r.Delegation == nil {
		return fault.New(fault.Unavailable, "The cluster's application credential cannot be revoked: Keystone is not configured.").
			WithReason(fault.ReasonConfiguration)
	}
	return r.Delegation.Revoke(ctx, userID, credentialID, r.Operation.ClusterID)
}

// Handler makes the event function of an operation from its steps.
func (c *Conductor) Handler(kind magnum.OperationKind, steps ...Step) http.Handler {
	return events.Handler(func(ctx context.Context, e event.Event) error {
		var command Command
		if err := e.DataAs(&command); err != nil || command.OperationID == "" || command.ClusterID == "" {
			return fault.Wrap(fault.Invalid, err, "the data of a %s event must be {operation_id, cluster_uuid}", e.Type())
		}
		err := c.work(ctx, command, steps)
		c.Published(ctx)
		return err
	}, events.CommandFor(kind))
}

// work runs what is left of an operation. It returns nil when there is nothing
// (more) to do for this delivery, whatever became of the operation, and an error
// only if it could not find out or write down.
func (c *Conductor) work(ctx context.Context, command Command, steps []Step) error {
	o, ok, err := c.claim(ctx, command)
	if err != nil || !ok {
		return err
	}
	ctx, stop := c.keepLease(ctx, o)
	defer stop()
	r := &Run{Conductor: c, Operation: o}
	if err := r.prepare(ctx); err != nil {
		return r.settle(ctx, err)
	}
	if r.finished {
		return nil
	}
	for _, step := range steps {
		if r.Operation.Done(step.Name) {
			continue
		}
		if err := r.step(ctx, step); err != nil {
			return r.settle(ctx, err)
		}
		if step.Await && !r.noAwait || r.finished {
			return nil
		}
	}
	if r.finished {
		return nil
	}
	return r.settle(ctx, r.succeed(ctx))
}

func (c *Conductor) claim(ctx context.Context, command Command) (o magnum.Operation, ok bool, err error) {
	now := c.Now()
	err = c.DB.InTx(ctx, func(tx *postgres.Store) (err error) {
		o, ok, err = tx.Operations.Claim(ctx, command.OperationID, command.ClusterID, c.Owner, now, now.Add(c.Settings.Lease))
		if err != nil || !ok {
			return err
		}
		return c.endOvertaken(ctx, tx, o, now)
	})
	return o, ok, err
}

// endOvertaken gives operations that were replaced while they ran, and whose
// handlers died, their end and their one final notification. It has to be done
// before a delete takes the cluster away.
func (c *Conductor) endOvertaken(ctx context.Context, tx *postgres.Store, o magnum.Operation, now time.Time) error {
	overtaken, err := tx.Operations.EndOvertaken(ctx, o.ClusterID, now)
	if err != nil || len(overtaken) == 0 || ofFederation(o.Kind) {
		return err
	}
	cluster, err := tx.Clusters.Lock(ctx, o.ClusterID)
	if err != nil {
		return err
	}
	s, err := load(ctx, tx, cluster)
	if err != nil {
		return err
	}
	for _, dead := range overtaken {
		if err := c.tellSuperseded(ctx, tx, s, dead); err != nil {
			return err
		}
	}
	return nil
}

// keepLease renews the lease while the handler works and cancels the context if
// it is lost. The caller must call stop, which waits for the renewal to end.
func (c *Conductor) keepLease(ctx context.Context, o magnum.Operation) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(c.Settings.Lease / 3)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			held, err := c.DB.Operations.Renew(ctx, o, c.Now().Add(c.Settings.Lease))
			if err == nil && !held {
				cancel(errLeaseLost)
				return
			}
			if err != nil && ctx.Err() == nil {
				slog.WarnContext(ctx, "renew lease", "operation", o.ID, "err", err)
			}
		}
	}()
	return ctx, func() { cancel(context.Canceled); <-done }
}

// errLeaseLost ends a handler whose operation another has taken over, or which
// a later wish replaced: whatever it still wants to write must not be written.
var errLeaseLost = fault.New(fault.Internal, "the lease of the operation was lost")

// prepare loads what the steps work on.
func (r *Run) prepare(ctx context.Context) error {
	cluster, err := r.DB.Clusters.ByUUID(ctx, r.Operation.ClusterID)
	if fault.Is(err, fault.NotFound) {
		// Deleted meanwhile, with all that was to be changed about it.
		r.finished = true
		_, err = r.DB.Operations.TryMove(ctx, r.Operation, postgres.Move{To: magnum.Superseded, Error: "The cluster is gone."}, r.Now())
		return err
	}
	if err != nil {
		return err
	}
	if r.Subject, err = load(ctx, &r.DB.Store, cluster); err != nil {
		return err
	}
	if r.Operation.SupersededBy != nil {
		return errLeaseLost
	}
	if past(r.Operation, r.Now()) {
		return r.overdue()
	}
	r.Driver, err = r.Drivers.Named(cluster.Driver)
	return err
}

func past(o magnum.Operation, now time.Time) bool {
	return o.DeadlineAt != nil && !now.Before(*o.DeadlineAt)
}

// step runs one step and records it. Where the driver has to bring something
// about, the operation begins to wait in the same transaction.
func (r *Run) step(ctx context.Context, step Step) error {
	stepCtx, cancel := context.WithTimeout(ctx, r.Settings.StepTimeout)
	defer cancel()
	stepCtx, end := telemetry.Span(stepCtx, string(r.Operation.Kind)+" "+step.Name)
	err := step.Do(stepCtx, r)
	if end(err); err != nil {
		return err
	}
	if r.finished {
		return nil
	}
	if step.Await && !r.noAwait {
		return r.await(ctx, step.Name)
	}
	held, err := r.DB.Operations.RecordStep(ctx, r.Operation, step.Name)
	if err != nil {
		return err
	}
	if !held {
		return errLeaseLost
	}
	r.Operation.Steps = append(r.Operation.Steps, step.Name)
	return nil
}

// InTx runs fn in a transaction that commits only if the operation's lease is
// still held: fenced against a handler that was believed dead.
func (r *Run) InTx(ctx context.Context, fn func(tx *postgres.Store) error) error {
	return r.DB.InTx(ctx, func(tx *postgres.Store) error {
		o, held, err := tx.Operations.Hold(ctx, r.Operation)
		if err != nil {
			return err
		}
		if !held || o.SupersededBy != nil {
			return errLeaseLost
		}
		return fn(tx)
	})
}

// Change locks the cluster and lets fn change the rows of its subject, which is
// read anew; what fn changed is stored in the same transaction, under the lease.
func (r *Run) Change(ctx context.Context, fn func(tx *postgres.Store, s *Subject) error) error {
	return r.DB.InTx(ctx, func(tx *postgres.Store) error {
		s, err := r.lock(ctx, tx)
		if err != nil {
			return err
		}
		before := s.clone()
		if err := fn(tx, s); err != nil {
			return err
		}
		if err := r.store(ctx, tx, before, s, r.Now()); err != nil {
			return err
		}
		r.Subject = s
		return nil
	})
}

// lock takes the cluster's row and then the operation's, the order in which all
// do, and reads the subject. It refuses a run that has lost its operation.
func (r *Run) lock(ctx context.Context, tx *postgres.Store) (*Subject, error) {
	cluster, err := tx.Clusters.Lock(ctx, r.Operation.ClusterID)
	if err != nil {
		return nil, err
	}
	o, held, err := tx.Operations.Hold(ctx, r.Operation)
	if err != nil {
		return nil, err
	}
	if !held || o.SupersededBy != nil {
		return nil, errLeaseLost
	}
	r.Operation = o
	return load(ctx, tx, cluster)
}

// await moves the operation to waiting and has the cluster looked at. It locks the
// cluster like all that schedules looks: an operation that ends at the same moment
// would otherwise take this one for still running, and the look away.
func (r *Run) await(ctx context.Context, step string) error {
	now := r.Now()
	return r.DB.InTx(ctx, func(tx *postgres.Store) error {
		s, err := r.lock(ctx, tx)
		if err != nil {
			return err
		}
		if r.accepted != nil {
			before := s.clone()
			r.accepted(s)
			if err := r.store(ctx, tx, before, s, now); err != nil {
				return err
			}
		}
		o := r.Operation
		if err := tx.Operations.Move(ctx, o, postgres.Move{To: magnum.Waiting, Step: step}, now); err != nil {
			return err
		}
		ticks, err := tx.Ticks.Of(ctx, []string{o.ClusterID})
		if err != nil {
			return err
		}
		if err := tx.Ticks.ScheduleSync(ctx, o.ClusterID, &now, 0, ticks[o.ClusterID].Failure); err != nil {
			return err
		}
		return r.wake(ctx, tx, s, now)
	})
}

// wake has the oldest operation of a locked cluster that could be worked on now
// looked at.
func (c *Conductor) wake(ctx context.Context, tx *postgres.Store, s *Subject, now time.Time) error {
	for _, o := range s.Open {
		if o.State == magnum.Pending && !o.DueAt.After(now) {
			return tx.Events.Add(ctx, c.command(o, now))
		}
	}
	return nil
}

// wakeNext publishes the command of the cluster's next operation: while this one
// was at work, its own command found the cluster taken.
func (c *Conductor) wakeNext(ctx context.Context, tx *postgres.Store, clusterID string, now time.Time) error {
	next, ok, err := tx.Operations.Next(ctx, clusterID, now)
	if err != nil || !ok {
		return err
	}
	return tx.Events.Add(ctx, c.command(next, now))
}

// settle decides what an error means for the operation and writes it down.
func (r *Run) settle(ctx context.Context, err error) error {
	if err == nil || r.finished {
		return err
	}
	// What happened must be written even if the delivery's time is over.
	write, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	switch {
	case err == errLeaseLost || context.Cause(ctx) == errLeaseLost:
		return r.giveUp(write)
	case r.Subject == nil || fault.Transient(err) && !past(r.Operation, r.Now()):
		return r.retry(write, err)
	}
	if err = r.fail(write, err); err == errLeaseLost { // it was replaced while it failed
		return r.giveUp(write)
	}
	return err
}

// giveUp ends a run that has lost its operation. If a later wish took its place
// while it ran, the operation is ended here; else its new holder goes on.
func (r *Run) giveUp(ctx context.Context) error {
	r.Telemetry.LeaseLost(ctx, string(r.Operation.Kind))
	slog.WarnContext(ctx, "operation left to another", "operation", r.Operation.ID, "kind", r.Operation.Kind, "cluster", r.Operation.ClusterID)
	return r.DB.InTx(ctx, func(tx *postgres.Store) error {
		if _, err := tx.Clusters.Lock(ctx, r.Operation.ClusterID); fault.Is(err, fault.NotFound) {
			return nil // whoever deleted it has ended the operation
		} else if err != nil {
			return err
		}
		o, held, err := tx.Operations.Hold(ctx, r.Operation)
		if err != nil || !held || o.SupersededBy == nil {
			return err
		}
		return r.overtaken(ctx, tx, o)
	})
}

// overtaken ends an operation in whose place a later wish is. Like all that tells of a
// cluster it locks it: notifications leave in the order of their rows, and must be there
// in that order.
func (r *Run) overtaken(ctx context.Context, tx *postgres.Store, o magnum.Operation) error {
	now := r.Now()
	cluster, err := tx.Clusters.Lock(ctx, o.ClusterID)
	if err != nil {
		return err
	}
	s, err := load(ctx, tx, cluster)
	if err != nil {
		return err
	}
	if err := r.replaced(ctx, tx, s, o, now); err != nil {
		return err
	}
	return r.wakeNext(ctx, tx, o.ClusterID, now)
}

// retry gives the operation back until a later time: what it needs is not there
// now. The user sees what is waited for in status_reason.
func (r *Run) retry(ctx context.Context, cause error) error {
	now := r.Now()
	due := now.Add(backoff(r.Operation.Attempt))
	r.Telemetry.Retry(ctx, string(r.Operation.Kind), string(fault.ReasonOf(cause)))
	slog.WarnContext(ctx, "operation will be tried again", "operation", r.Operation.ID, "kind", r.Operation.Kind,
		"cluster", r.Operation.ClusterID, "attempt", r.Operation.Attempt, "due", due, "err", cause)
	return r.DB.InTx(ctx, func(tx *postgres.Store) error {
		if err := r.explain(ctx, tx, "Waiting: "+fault.Text(cause)); err != nil {
			return err
		}
		o, held, err := tx.Operations.Hold(ctx, r.Operation)
		if err != nil || !held {
			return err
		}
		if o.SupersededBy != nil {
			return r.overtaken(ctx, tx, o)
		}
		if err := tx.Operations.Move(ctx, o, postgres.Move{To: magnum.Pending, DueAt: due,
			Error: fault.Text(cause), ErrorCode: string(fault.ReasonOf(cause))}, now); err != nil {
			return err
		}
		command := r.command(o, now)
		command.DueAt = due
		if err := tx.Events.Add(ctx, command); err != nil {
			return err
		}
		return r.wakeNext(ctx, tx, o.ClusterID, now)
	})
}

// explain puts a sentence into status_reason of a cluster in progress.
func (r *Run) explain(ctx context.Context, tx *postgres.Store, reason string) error {
	if r.Operation.Kind == magnum.CredentialRotate {
		return nil
	}
	cluster, err := tx.Clusters.Lock(ctx, r.Operation.ClusterID)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil || !cluster.Status.InProgress() || cluster.StatusReason != nil && *cluster.StatusReason == reason {
		return err
	}
	cluster.StatusReason = &reason
	return tx.Clusters.Update(ctx, &cluster, r.Now())
}

// backoff is how long an operation rests after the attempt-th failure: one second,
// doubled each time to a minute, with jitter of a quarter.
func backoff(attempt int) time.Duration {
	d := time.Minute
	if attempt < 7 {
		d = time.Second << max(attempt-1, 0)
	}
	d = min(d, time.Minute)
	return d + time.Duration(rand.Int64N(int64(d)/2)) - d/4
}

// Arguments decodes the operation's arguments.
func Arguments[T any](o magnum.Operation) (T, error) {
	var a T
	if err := json.Unmarshal(o.Arguments, &a); err != nil {
		return a, fault.Wrap(fault.Internal, err, "the arguments of operation %s", o.ID)
	}
	return a, nil
}
