package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"carafe/shared/fault"
	"carafe/shared/magnum"
	"carafe/shared/postgres/internal/sqlc"
)

// Federations are the federations.
type Federations struct {
	q querier
	s *sqlc.Queries
}

var federationOrder = columnsOf("seq", "project_id", "uuid", "name", "hostcluster_id", "status", "status_reason",
	"created_at", "updated_at").with("member_ids", "t.member_ids::text").with("properties", "t.properties::text")

const federationColumns = `t.seq, t.uuid, t.version, t.project_id, t.name, t.hostcluster_id, t.member_ids, t.status,
	t.status_reason, t.properties, t.created_at, t.updated_at`

func scanFederation(row pgx.CollectableRow) (magnum.Federation, error) {
	var f magnum.Federation
	err := row.Scan(&f.Seq, &f.UUID, &f.Version, &f.ProjectID, &f.Name, &f.HostClusterID, &f.MemberIDs,
		(*string)(&f.Status), &f.StatusReason, &f.Properties, &f.CreatedAt, &f.UpdatedAt)
	return f, err
}

func federation(r sqlc.Federation) magnum.Federation {
	return magnum.Federation{Seq: r.Seq, UUID: r.UUID, Version: r.Version, ProjectID: r.ProjectID, Name: r.Name,
		HostClusterID: r.HostclusterID, MemberIDs: r.MemberIds, Status: magnum.Status(r.Status),
		StatusReason: r.StatusReason, Properties: r.Properties, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt}
}

func federationNotFound(ident string) error {
	return fault.New(fault.NotFound, "Federation %s could not be found.", ident)
}

// FederationSortKeys are what federations can be sorted by, id apart.
func FederationSortKeys() []string { return federationOrder.keys() }

// where is the tenant filter for a table without user_id.
func (x Federations) where(s Scope, n int) (string, []any) {
	if s.ProjectID == "" && !s.AllProjects {
		return "false", nil
	}
	return s.where("t", n)
}

// List gives one page of the federations that the scope sees. Fault NotFound: the marker.
func (x Federations) List(ctx context.Context, scope Scope, p Page) ([]magnum.Federation, error) {
	cond, args := x.where(scope, 1)
	sql, args := federationOrder.list("federations", "uuid", federationColumns, []string{cond}, args, p)
	rows, err := x.q.Query(ctx, sql, args...)
	if err != nil {
		return nil, classify(err, "list federations")
	}
	list, err := pgx.CollectRows(rows, scanFederation)
	if err != nil {
		return nil, classify(err, "list federations")
	}
	if len(list) == 0 && p.Marker != "" {
		_, err = x.Get(ctx, scope, Ident{UUID: p.Marker, Text: p.Marker})
	}
	return list, err
}

// Get finds a federation that the scope sees. Faults: NotFound, Conflict if
// several have the name.
func (x Federations) Get(ctx context.Context, scope Scope, ident Ident) (magnum.Federation, error) {
	cond, args := x.where(scope, 2)
	rows, err := x.q.Query(ctx, "SELECT "+federationColumns+" FROM federations t WHERE "+ident.where()+" AND "+cond+" LIMIT 2",
		append([]any{ident.value()}, args...)...)
	if err != nil {
		return magnum.Federation{}, classify(err, "find federation")
	}
	found, err := pgx.CollectRows(rows, scanFederation)
	switch {
	case err != nil:
		return magnum.Federation{}, classify(err, "find federation")
	case len(found) == 0:
		return magnum.Federation{}, federationNotFound(ident.Text)
	case len(found) > 1:
		return magnum.Federation{}, fault.New(fault.Conflict,
			"Multiple federations exist with same name. Please use the federation uuid instead.")
	}
	return found[0], nil
}

// Create stores a new federation.
func (x Federations) Create(ctx context.Context, f magnum.Federation) (magnum.Federation, error) {
	members := f.MemberIDs
	if members == nil {
		members = []string{}
	}
	r, err := x.s.InsertFederation(ctx, sqlc.InsertFederationParams{UUID: f.UUID, ProjectID: f.ProjectID, Name: f.Name,
		HostclusterID: f.HostClusterID, MemberIds: members, Status: string(f.Status), Properties: notNilMap(f.Properties),
		CreatedAt: f.CreatedAt})
	return federation(r), classify(err, "insert federation")
}

// Lock reads a federation and keeps others from changing it until the
// transaction ends. Fault NotFound.
func (x Federations) Lock(ctx context.Context, uuid string) (magnum.Federation, error) {
	r, err := x.s.LockFederation(ctx, uuid)
	if noRows(err) {
		return magnum.Federation{}, federationNotFound(uuid)
	}
	return federation(r), classify(err, "lock federation")
}

// Update stores members, properties and status if the row still has f.Version.
// Fault Conflict if it has not.
func (x Federations) Update(ctx context.Context, f *magnum.Federation, now time.Time) error {
	v, err := x.s.UpdateFederation(ctx, sqlc.UpdateFederationParams{UUID: f.UUID, Version: f.Version, MemberIds: f.MemberIDs,
		Properties: notNilMap(f.Properties), Status: string(f.Status), StatusReason: f.StatusReason, UpdatedAt: &now})
	if noRows(err) {
		return fault.New(fault.Conflict, "Federation %s was changed by another request. Read it again and repeat the change.", f.UUID)
	}
	f.Version = v
	return classify(err, "update federation")
}

// Delete removes a federation.
func (x Federations) Delete(ctx context.Context, uuid string) error {
	_, err := x.s.DeleteFederation(ctx, uuid)
	return classify(err, "delete federation")
}
