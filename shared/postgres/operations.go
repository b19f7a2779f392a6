package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"carafe/shared/fault"
	"carafe/shared/magnum"
	"carafe/shared/postgres/internal/sqlc"
)

// Operations are the durable commands.
type Operations struct {
	q     querier
	s     *sqlc.Queries
	later later
}

func operation(r sqlc.Operation) magnum.Operation {
	return magnum.Operation{
		Seq: r.Seq, ID: r.ID, Kind: magnum.OperationKind(r.Kind), ClusterID: r.ClusterID, NodeGroupID: r.NodegroupID,
		Arguments: r.Arguments, State: magnum.OperationState(r.State), Steps: r.Steps, Attempt: r.Attempt, Error: r.Error,
		ErrorCode: r.ErrorCode, SupersededBy: r.SupersededBy, UserID: r.UserID, ProjectID: r.ProjectID, DomainID: r.DomainID,
		RequestID: r.RequestID, Traceparent: r.Traceparent, LeaseOwner: r.LeaseOwner, LeaseUntil: r.LeaseUntil,
		Fence: r.Fence, CreatedAt: r.CreatedAt, StartedAt: r.StartedAt, FinishedAt: r.FinishedAt, DueAt: r.DueAt,
		DeadlineAt: r.DeadlineAt,
	}
}

func operations(rows []sqlc.Operation) []magnum.Operation {
	list := make([]magnum.Operation, len(rows))
	for i, r := range rows {
		list[i] = operation(r)
	}
	return list
}

// Record stores a new operation as pending.
func (x Operations) Record(ctx context.Context, o magnum.Operation) error {
	arguments := o.Arguments
	if arguments == nil {
		arguments = []byte("{}")
	}
	return classify(x.later(nil).InsertOperation(ctx, sqlc.InsertOperationParams{
		ID: o.ID, Kind: string(o.Kind), ClusterID: o.ClusterID, NodegroupID: o.NodeGroupID, Arguments: arguments,
		UserID: o.UserID, ProjectID: o.ProjectID, DomainID: o.DomainID, RequestID: o.RequestID, Traceparent: o.Traceparent,
		CreatedAt: o.CreatedAt, DeadlineAt: o.DeadlineAt,
	}), "insert operation")
}

// Get reads an operation. Fault NotFound.
func (x Operations) Get(ctx context.Context, id string) (magnum.Operation, error) {
	r, err := x.s.Operation(ctx, id)
	if noRows(err) {
		return magnum.Operation{}, fault.New(fault.NotFound, "Operation %s could not be found.", id)
	}
	return operation(r), classify(err, "read operation")
}

// Open gives the cluster's operations that are not finished, oldest first.
func (x Operations) Open(ctx context.Context, clusterID string) ([]magnum.Operation, error) {
	rows, err := x.s.OpenOperations(ctx, clusterID)
	return operations(rows), classify(err, "read open operations")
}

// OpenOf gives the same of many clusters, by cluster uuid.
func (x Operations) OpenOf(ctx context.Context, clusterIDs []string) (map[string][]magnum.Operation, error) {
	rows, err := x.s.OpenOperationsOf(ctx, clusterIDs)
	of := make(map[string][]magnum.Operation, len(clusterIDs))
	for _, r := range rows {
		of[r.ClusterID] = append(of[r.ClusterID], operation(r))
	}
	return of, classify(err, "read open operations")
}

// Claim takes the operation for owner until leaseUntil, if it is due and nobody
// works on it or on another of the cluster. It belongs into a transaction of its
// own. False: there is nothing to do for this delivery.
func (x Operations) Claim(ctx context.Context, id, clusterID, owner string, now, leaseUntil time.Time) (magnum.Operation, bool, error) {
	if err := x.s.LockOperations(ctx, clusterID); err != nil {
		return magnum.Operation{}, false, classify(err, "lock operations of the cluster")
	}
	r, err := x.s.ClaimOperation(ctx, sqlc.ClaimOperationParams{ID: id, Owner: owner, Now: &now, LeaseUntil: &leaseUntil})
	if noRows(err) {
		return magnum.Operation{}, false, nil
	}
	return operation(r), err == nil, classify(err, "claim operation")
}

// Renew moves the end of a lease. False: the lease was lost.
func (x Operations) Renew(ctx context.Context, o magnum.Operation, leaseUntil time.Time) (bool, error) {
	n, err := x.s.RenewLease(ctx, sqlc.RenewLeaseParams{ID: o.ID, Fence: o.Fence, LeaseUntil: &leaseUntil})
	return n == 1, classify(err, "renew lease")
}

// Hold locks the operation in the transaction if the caller still has its lease,
// and reads it anew. False: the lease was lost, and nothing may be written.
func (x Operations) Hold(ctx context.Context, o magnum.Operation) (magnum.Operation, bool, error) {
	r, err := x.s.HoldOperation(ctx, sqlc.HoldOperationParams{ID: o.ID, Fence: o.Fence})
	if noRows(err) {
		return o, false, nil
	}
	return operation(r), err == nil, classify(err, "hold operation")
}

// RecordStep notes that a step is done. False: the lease was lost, or a later
// wish has taken the operation's place.
func (x Operations) RecordStep(ctx context.Context, o magnum.Operation, step string) (bool, error) {
	n, err := x.s.RecordStep(ctx, sqlc.RecordStepParams{ID: o.ID, Fence: o.Fence, Step: step})
	return n == 1, classify(err, "record step")
}

// Move is what becomes of an operation.
type Move struct {
	To        magnum.OperationState
	DueAt     time.Time // for pending: not before
	Step      string    // recorded with the move, if not empty
	Error     string
	ErrorCode string
}

// ErrMoved says that an operation is not what it was when it was read.
var ErrMoved = fault.New(fault.Conflict, "The operation has gone on meanwhile.")

// Move changes the state if the operation is still as o says (state and fence).
// ErrMoved: it is not; within a transaction that may come up later, and ends it.
func (x Operations) Move(ctx context.Context, o magnum.Operation, m Move, now time.Time) error {
	return classify(x.later(one(ErrMoved)).MoveOperation(ctx, moveParams(o, m, now)), "move operation")
}

// TryMove is Move where it is no fault that the operation has gone on: false.
func (x Operations) TryMove(ctx context.Context, o magnum.Operation, m Move, now time.Time) (bool, error) {
	moved := false
	s := sqlc.New(checked{x.q, func(tag pgconn.CommandTag) error { moved = tag.RowsAffected() == 1; return nil }})
	return moved, classify(s.MoveOperation(ctx, moveParams(o, m, now)), "move operation")
}

func moveParams(o magnum.Operation, m Move, now time.Time) sqlc.MoveOperationParams {
	p := sqlc.MoveOperationParams{ID: o.ID, Fence: o.Fence, FromState: string(o.State), State: string(m.To), DueAt: o.DueAt, Step: m.Step}
	if !m.DueAt.IsZero() {
		p.DueAt = m.DueAt
	}
	if m.Error != "" {
		p.Error = &m.Error
	}
	if m.ErrorCode != "" {
		p.ErrorCode = &m.ErrorCode
	}
	if m.To.Terminal() {
		p.FinishedAt = &now
	}
	return p
}

// Supersede lets a later operation take o's place. It gives o as it is then: one
// that waited is over; one that runs will be ended by its handler.
func (x Operations) Supersede(ctx context.Context, o magnum.Operation, by string, now time.Time) (magnum.Operation, bool, error) {
	r, err := x.s.SupersedeOperation(ctx, sqlc.SupersedeOperationParams{ID: o.ID, By: by, Now: now})
	if noRows(err) {
		return o, false, nil
	}
	return operation(r), err == nil, classify(err, "supersede operation")
}

// EndOvertaken ends the cluster's operations that a later wish replaced while
// they ran and whose handler died before it noticed.
func (x Operations) EndOvertaken(ctx context.Context, clusterID string, now time.Time) ([]magnum.Operation, error) {
	rows, err := x.s.EndOvertaken(ctx, sqlc.EndOvertakenParams{ClusterID: clusterID, Now: now})
	return operations(rows), classify(err, "end overtaken operations")
}

// Next gives the cluster's oldest operation that could be worked on now.
func (x Operations) Next(ctx context.Context, clusterID string, now time.Time) (magnum.Operation, bool, error) {
	r, err := x.s.NextOperation(ctx, sqlc.NextOperationParams{ClusterID: clusterID, Now: now})
	if noRows(err) {
		return magnum.Operation{}, false, nil
	}
	return operation(r), err == nil, classify(err, "find the next operation")
}

// Overdue gives operations past their deadline that no living handler holds.
func (x Operations) Overdue(ctx context.Context, now time.Time, batch int32) ([]magnum.Operation, error) {
	rows, err := x.s.OverdueOperations(ctx, sqlc.OverdueOperationsParams{Now: &now, Batch: batch})
	return operations(rows), classify(err, "find overdue operations")
}

// Stranded gives operations that have been due since before, or whose lease ran
// out, and whose command did not leave since before either: it got lost, or the
// handler died.
func (x Operations) Stranded(ctx context.Context, before, now time.Time, batch int32) ([]magnum.Operation, error) {
	rows, err := x.s.StrandedOperations(ctx, sqlc.StrandedOperationsParams{Before: before, Now: &now, Batch: batch})
	return operations(rows), classify(err, "find stranded operations")
}

// History gives one page of a cluster's operations, newest first: those with a
// seq below before, or the newest for 0.
func (x Operations) History(ctx context.Context, clusterID string, before int64, page int32) ([]magnum.Operation, error) {
	rows, err := x.s.OperationsOfCluster(ctx, sqlc.OperationsOfClusterParams{ClusterID: clusterID, BeforeSeq: before, Page: page})
	return operations(rows), classify(err, "read operations of the cluster")
}

// Forget deletes up to batch operations that finished before the time.
func (x Operations) Forget(ctx context.Context, before time.Time, batch int32) (int64, error) {
	n, err := x.s.ForgetOperations(ctx, sqlc.ForgetOperationsParams{Before: &before, Batch: batch})
	return n, classify(err, "delete old operations")
}
