package conductor

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"carafe/shared/fault"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
)

// Ending is how an operation ends.
type Ending struct {
	Operation magnum.Operation
	Failed    bool
	Reason    string // one sentence, when failed
	Code      string // a fault.Reason, when failed
}

// Outcome is the ending as its notification says it.
func (e Ending) Outcome() magnum.Outcome {
	if e.Failed {
		return magnum.OutcomeFailure
	}
	return magnum.OutcomeSuccess
}

// End applies an ending to the subject's rows: the groups that the operation
// touched, what a failure takes back, and the operation itself in Open. It is
// pure; Aggregate then gives the cluster its status.
func (s *Subject) End(e Ending) {
	for _, n := range s.touched(e.Operation) {
		if !n.Status.InProgress() || s.busy(n, e.Operation) {
			continue // or another operation has it, and says how it ends
		}
		if e.Failed {
			n.Status, n.StatusReason = n.Status.To("FAILED"), &e.Reason
			continue
		}
		n.Status, n.StatusReason = n.Status.To("COMPLETE"), nil
	}
	if e.Failed && !e.Operation.Done(ApplyStep) {
		s.takeBack(e.Operation)
	}
	for i, o := range s.Open {
		if o.ID == e.Operation.ID {
			s.Open = append(s.Open[:i], s.Open[i+1:]...)
			break
		}
	}
}

// ApplyStep is the step in which the driver accepts the desired state. What
// fails before it never happened: the desired state is put back, unless a later
// wish has changed it again (spec/conductor.md §2.5).
const ApplyStep = "apply"

func (s *Subject) takeBack(o magnum.Operation) {
	switch o.Kind {
	case magnum.ClusterResize, magnum.ClusterUpdate:
		a, err := Arguments[magnum.ResizeArguments](o)
		if err != nil || o.NodeGroupID == nil {
			return
		}
		if n := s.NodeGroup(*o.NodeGroupID); n != nil && n.NodeCount == a.NodeCount {
			n.NodeCount = a.PreviousNodeCount
		}
	case magnum.ClusterUpgrade:
		a, err := Arguments[magnum.UpgradeArguments](o)
		if err != nil || s.Cluster.ClusterTemplateID != a.ClusterTemplateID {
			return
		}
		s.Cluster.ClusterTemplateID = a.PreviousClusterTemplateID
		if a.Previous == nil {
			return
		}
		s.Cluster.Labels = a.Previous.Labels
		for uuid, was := range a.Previous.NodeGroups {
			if n := s.NodeGroup(uuid); n != nil {
				n.ImageID, n.Labels = was.ImageID, was.Labels
			}
		}
	}
}

// Aggregate gives the cluster the status that its operations and groups add up
// to: in progress while one is, else failed if one has failed since, else
// complete. failure is what failed since the cluster last was at rest; the
// return value is what to keep of it.
func (s *Subject) Aggregate(ended []Ending, failure *string) *string {
	var reasons []string
	if failure != nil {
		reasons = append(reasons, *failure)
	}
	counted := false
	for _, e := range ended {
		if e.Operation.Kind == magnum.CredentialRotate {
			continue // it has no part in the lifecycle (PB-37)
		}
		counted = true
		if e.Failed {
			reasons = append(reasons, e.Reason)
		}
	}
	if !counted {
		return failure
	}
	all := strings.Join(reasons, "; ")
	for _, o := range s.Open {
		if o.Kind != magnum.CredentialRotate {
			if len(reasons) == 0 {
				return nil
			}
			return &all
		}
	}
	if !s.Cluster.Status.InProgress() {
		return nil
	}
	if len(reasons) > 0 {
		s.Cluster.Status, s.Cluster.StatusReason = s.Cluster.Status.To("FAILED"), &all
		return nil
	}
	s.Cluster.Status, s.Cluster.StatusReason = s.Cluster.Status.To("COMPLETE"), nil
	return nil
}

// end writes endings down: rows, operations, final notifications and the ticks,
// in the caller's transaction, which has locked the cluster. s is changed, and
// was already since before. failure is what the ticks keep. ErrMoved: one of the
// operations has gone on.
func (c *Conductor) end(ctx context.Context, tx *postgres.Store, before, s *Subject, endings []Ending, failure *string, now time.Time) error {
	for _, e := range endings {
		move := postgres.Move{To: magnum.Succeeded}
		if e.Failed {
			move = postgres.Move{To: magnum.FailedOp, Error: e.Reason, ErrorCode: e.Code}
		}
		if err := tx.Operations.Move(ctx, e.Operation, move, now); err != nil {
			return err
		}
		s.End(e)
		c.count(ctx, tx, e.Operation, move.To, now)
	}
	failure = s.Aggregate(endings, failure)
	if err := c.store(ctx, tx, before, s, now); err != nil {
		return err
	}
	if err := c.schedule(ctx, tx, s, 0, failure, now); err != nil {
		return err
	}
	for _, e := range endings {
		if notificationType(e.Operation.Kind) == "" {
			continue
		}
		if err := tx.Events.Add(ctx, c.notification(s, e.Operation, e.Outcome(), e.Reason, e.Code, now)); err != nil {
			return err
		}
	}
	return c.wake(ctx, tx, s, now)
}

// schedule sets the cluster's next looks: for its status while an operation
// waits for the driver, for its health while it has a life of its own.
func (c *Conductor) schedule(ctx context.Context, tx *postgres.Store, s *Subject, misses int, failure *string, now time.Time) error {
	var due *time.Time
	for _, o := range s.Open {
		if o.State == magnum.Waiting {
			at := now.Add(c.Settings.SyncInterval)
			due = &at
		}
	}
	if s.Cluster.Status.InProgress() || c.Settings.HealthInterval <= 0 {
		return tx.Ticks.ScheduleSync(ctx, s.Cluster.UUID, due, misses, failure)
	}
	health := &now
	switch s.Cluster.Status {
	case magnum.CreateFailed, magnum.DeleteFailed:
		health = nil
	}
	return tx.Ticks.ScheduleBoth(ctx, s.Cluster.UUID, due, misses, failure, health)
}

// store writes what differs between two versions of a subject.
func (c *Conductor) store(ctx context.Context, tx *postgres.Store, before, after *Subject, now time.Time) error {
	for i := range after.NodeGroups {
		n := &after.NodeGroups[i]
		if was := before.NodeGroup(n.UUID); was != nil && !sameNodeGroup(*was, *n) {
			if err := tx.NodeGroups.Update(ctx, n, now); err != nil {
				return err
			}
		}
	}
	if sameCluster(before.Cluster, after.Cluster) {
		return nil
	}
	return tx.Clusters.Update(ctx, &after.Cluster, now)
}

// fail ends the run's operation without success.
func (r *Run) fail(ctx context.Context, cause error) error {
	slog.WarnContext(ctx, "operation failed", "operation", r.Operation.ID, "kind", r.Operation.Kind,
		"cluster", r.Operation.ClusterID, "err", cause)
	return r.endWith(ctx, Ending{Failed: true, Reason: fault.Text(cause), Code: string(fault.ReasonOf(cause))})
}

// succeed ends the run's operation: all steps are done and nothing is awaited.
func (r *Run) succeed(ctx context.Context) error { return r.endWith(ctx, Ending{}) }

func (r *Run) endWith(ctx context.Context, e Ending) error {
	now := r.Now()
	return r.DB.InTx(ctx, func(tx *postgres.Store) error {
		s, err := r.lock(ctx, tx)
		if err != nil {
			return err
		}
		e.Operation = r.Operation
		return r.endAlone(ctx, tx, s, e, now)
	})
}

// endAlone ends one operation of a subject as the transaction has read it.
func (c *Conductor) endAlone(ctx context.Context, tx *postgres.Store, s *Subject, e Ending, now time.Time) error {
	ticks, err := tx.Ticks.Of(ctx, []string{s.Cluster.UUID})
	if err != nil {
		return err
	}
	return c.end(ctx, tx, s.clone(), s, []Ending{e}, ticks[s.Cluster.UUID].Failure, now)
}

// Finish ends the operation with success in the transaction of its last step: the
// last step of a delete removes the very rows that an ending would write to. The
// notification shows the subject as it was, with the status of its end.
func (r *Run) Finish(ctx context.Context, last func(tx *postgres.Store) error) error {
	now := r.Now()
	err := r.DB.InTx(ctx, func(tx *postgres.Store) error {
		s, err := r.lock(ctx, tx)
		if err != nil {
			return err
		}
		if err := r.endReplaced(ctx, tx, s, now); err != nil {
			return err
		}
		if err := last(tx); err != nil {
			return err
		}
		if err := tx.Operations.Move(ctx, r.Operation, postgres.Move{To: magnum.Succeeded}, now); err != nil {
			return err
		}
		r.count(ctx, tx, r.Operation, magnum.Succeeded, now)
		s.Cluster.Status, s.Cluster.StatusReason = s.Cluster.Status.To("COMPLETE"), nil
		return tx.Events.Add(ctx, r.notification(s, r.Operation, magnum.OutcomeSuccess, "", "", now))
	})
	r.finished = err == nil
	return err
}

// count tells telemetry of an ending, once it is written down.
func (c *Conductor) count(ctx context.Context, tx *postgres.Store, o magnum.Operation, end magnum.OperationState, now time.Time) {
	tx.OnCommit(func() { c.Telemetry.Operation(ctx, string(o.Kind), string(end), now.Sub(o.CreatedAt)) })
}

// endReplaced ends what the operation has replaced and a handler still holds, or
// died with: later there is no cluster left to tell of.
func (r *Run) endReplaced(ctx context.Context, tx *postgres.Store, s *Subject, now time.Time) error {
	open, err := tx.Operations.Open(ctx, r.Operation.ClusterID)
	if err != nil {
		return err
	}
	for _, o := range open {
		if o.SupersededBy == nil {
			continue
		}
		if err := r.replaced(ctx, tx, s, o, now); err != nil {
			return err
		}
	}
	return nil
}

// overdue is the fault of an operation past its deadline.
func (r *Run) overdue() error { return overdue(r.Operation, r.Subject) }

// overdue names the last thing that was reported: what the operation waited for.
func overdue(o magnum.Operation, s *Subject) error {
	minutes := o.DeadlineAt.Sub(o.CreatedAt).Minutes()
	text := fmt.Sprintf("Operation timed out after %.0f minutes", minutes)
	last := ""
	if o.Error != nil {
		last = *o.Error
	} else if s != nil && s.Cluster.StatusReason != nil {
		last = strings.TrimPrefix(*s.Cluster.StatusReason, "Waiting: ")
	}
	if last != "" {
		text += ": " + last
	}
	return fault.New(fault.Invalid, "%s", text).WithReason(fault.ReasonTimeout)
}
