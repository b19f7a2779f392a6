package conductor

import (
	"context"
	"encoding/json"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"carafe/shared/fault"
	"carafe/shared/identity"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
)

// Wish is an operation that a request asks for, decided but not yet recorded.
type Wish struct {
	Kind        magnum.OperationKind
	NodeGroupID *string
	Arguments   any // the kind's struct of magnum/arguments.go; nil: none
	// Supersedes tells which open operations end because of this one.
	Supersedes func(magnum.Operation) bool
	// Remember keeps the answer under the request's Idempotency-Key.
	Remember *Remember
}

// Remember is an answer to keep for the same request coming again.
type Remember struct {
	ProjectID, Key string
	Hash           []byte
	Status         int
	Body           []byte
}

// errRemembered ends a transaction whose Idempotency-Key another request has
// just used: that one's answer counts.
var errRemembered = fault.New(fault.Conflict, "A request with the same Idempotency-Key is being answered. Send it again.")

// Decide looks at a locked cluster, refuses with a fault, or changes rows in tx
// and the subject alike and says what is to be done. A nil Wish without error:
// nothing is to be done.
type Decide func(ctx context.Context, tx *postgres.Store, s *Subject) (*Wish, error)

// Accept records a wish about an existing cluster: rows, operation and events in
// one transaction with the cluster locked, so that of two requests only one can
// win (PB-11). It returns once all is stored; the caller answers, then calls
// Published. Faults: NotFound, and those of decide.
func (c *Conductor) Accept(ctx context.Context, caller identity.Caller, clusterID string, decide Decide) error {
	return c.DB.InTx(ctx, func(tx *postgres.Store) error {
		cluster, err := tx.Clusters.Lock(ctx, clusterID)
		if err != nil {
			return err
		}
		s, err := load(ctx, tx, cluster)
		if err != nil {
			return err
		}
		before := s.clone()
		wish, err := decide(ctx, tx, s)
		if err != nil || wish == nil {
			return err
		}
		// A notification of the beginning shows the status from before
		// (spec/conductor.md §7.3).
		told := s.clone()
		told.Cluster = before.Cluster
		return c.record(ctx, tx, caller, *wish, s, told)
	})
}

// AcceptNew records the creation of a cluster: create stores the rows within the
// transaction that also counts the project's clusters against its quota.
func (c *Conductor) AcceptNew(ctx context.Context, caller identity.Caller, defaultQuota int, remember *Remember,
	create func(ctx context.Context, tx *postgres.Store) (*Subject, error)) error {
	return c.DB.InTx(ctx, func(tx *postgres.Store) error {
		if err := tx.Clusters.Reserve(ctx, caller.ProjectID, defaultQuota); err != nil {
			return err
		}
		s, err := create(ctx, tx)
		if err != nil {
			return err
		}
		return c.record(ctx, tx, caller, Wish{Kind: magnum.ClusterCreate, Remember: remember}, s, s)
	})
}

// record writes the operation and its events, and ends what it supersedes.
func (c *Conductor) record(ctx context.Context, tx *postgres.Store, caller identity.Caller, w Wish, s, told *Subject) error {
	now := c.Now()
	o := magnum.Operation{
		ID: c.NewID(), Kind: w.Kind, ClusterID: s.Cluster.UUID, NodeGroupID: w.NodeGroupID, State: magnum.Pending,
		UserID: caller.UserID, ProjectID: caller.ProjectID, DomainID: caller.UserDomainID,
		RequestID: identity.RequestID(ctx), Traceparent: traceparent(ctx), CreatedAt: now,
		DeadlineAt: c.deadline(w.Kind, s.Cluster, now),
	}
	if w.Arguments != nil {
		arguments, err := json.Marshal(w.Arguments)
		if err != nil {
			return fault.Wrap(fault.Internal, err, "encode the arguments of %s", w.Kind)
		}
		o.Arguments = arguments
	}
	for _, open := range s.Open {
		if w.Supersedes == nil || !w.Supersedes(open) {
			continue
		}
		was, changed, err := tx.Operations.Supersede(ctx, open, o.ID, now)
		if err != nil {
			return err
		}
		if changed && was.State == magnum.Superseded {
			if err := c.tellSuperseded(ctx, tx, s, was); err != nil {
				return err
			}
		}
	}
	if err := tx.Operations.Record(ctx, o); err != nil {
		return err
	}
	if notificationType(w.Kind) != "" {
		if err := tx.Events.Add(ctx, c.notification(told, o, magnum.OutcomePending, "", "", now)); err != nil {
			return err
		}
	}
	if err := tx.Events.Add(ctx, c.command(o, now)); err != nil {
		return err
	}
	if w.Remember == nil {
		return nil
	}
	kept, err := tx.Idempotency.Keep(ctx, w.Remember.ProjectID, w.Remember.Key, postgres.Answer{
		RequestHash: w.Remember.Hash, Status: w.Remember.Status, Body: w.Remember.Body, CreatedAt: now})
	if err == nil && !kept {
		return errRemembered
	}
	return err
}

// replaced ends an operation that a later wish took the place of, if it still is
// as o says.
func (c *Conductor) replaced(ctx context.Context, tx *postgres.Store, s *Subject, o magnum.Operation, now time.Time) error {
	moved, err := tx.Operations.TryMove(ctx, o, postgres.Move{To: magnum.Superseded}, now)
	if err != nil || !moved {
		return err
	}
	return c.tellSuperseded(ctx, tx, s, o)
}

// tellSuperseded gives an operation that a later wish replaced its one final
// notification.
func (c *Conductor) tellSuperseded(ctx context.Context, tx *postgres.Store, s *Subject, o magnum.Operation) error {
	c.count(ctx, tx, o, magnum.Superseded, c.Now())
	if notificationType(o.Kind) == "" {
		return nil
	}
	e := c.notification(s, o, magnum.OutcomeFailure, "Superseded by a later request.", "superseded", c.Now())
	e.Priority = "info"
	return tx.Events.Add(ctx, e)
}

// Published is called after the answer has left: the events of this request, and
// any that were left behind, go out now rather than with the next tick.
func (c *Conductor) Published(ctx context.Context) { c.Publisher.Publish(ctx) }

// traceparent is the W3C trace context of the request, empty if it has none.
func traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}
