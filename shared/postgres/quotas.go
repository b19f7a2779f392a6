package postgres

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"carafe/shared/fault"
	"carafe/shared/magnum"
	"carafe/shared/postgres/internal/sqlc"
)

// Quotas are the limits that projects have.
type Quotas struct {
	q querier
	s *sqlc.Queries
}

var quotaOrder = columnsOf("id", "project_id", "resource", "hard_limit", "created_at", "updated_at")

func quota(r sqlc.Quota) magnum.Quota {
	return magnum.Quota{ID: r.ID, ProjectID: r.ProjectID, Resource: r.Resource, HardLimit: r.HardLimit,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt}
}

func quotaNotFound(projectID, resource string) error {
	return fault.New(fault.NotFound, "Quota could not be found: project_id %s resource %s.", projectID, resource)
}

// QuotaSortKeys are what quotas can be sorted by, id apart.
func QuotaSortKeys() []string { return quotaOrder.keys() }

// List gives one page of the quotas of a project, or of all for "". The marker
// is a quota's integer id. Fault NotFound: the marker.
func (x Quotas) List(ctx context.Context, projectID string, p Page) ([]magnum.Quota, error) {
	condition, args := "true", []any(nil)
	if projectID != "" {
		condition, args = "t.project_id = $1", []any{projectID}
	}
	sql, args := quotaOrder.list("quotas", "id", "t.id, t.project_id, t.resource, t.hard_limit, t.created_at, t.updated_at",
		[]string{condition}, args, p)
	if p.Marker != "" {
		id, err := strconv.ParseInt(p.Marker, 10, 64)
		if err != nil {
			return nil, fault.New(fault.NotFound, "Quota could not be found: quota id %s .", p.Marker)
		}
		args[len(args)-2] = id
	}
	rows, err := x.q.Query(ctx, sql, args...)
	if err != nil {
		return nil, classify(err, "list quotas")
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[magnum.Quota])
	if err != nil {
		return nil, classify(err, "list quotas")
	}
	if len(list) == 0 && p.Marker != "" {
		var found bool
		err := x.q.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM quotas t WHERE t.id = $1)", args[len(args)-2]).Scan(&found)
		if err == nil && !found {
			return nil, fault.New(fault.NotFound, "Quota could not be found: quota id %s .", p.Marker)
		}
		return list, classify(err, "find quota")
	}
	return list, nil
}

// Get reads a project's quota. Fault NotFound.
func (x Quotas) Get(ctx context.Context, projectID, resource string) (magnum.Quota, error) {
	r, err := x.s.Quota(ctx, sqlc.QuotaParams{ProjectID: projectID, Resource: resource})
	if noRows(err) {
		return magnum.Quota{}, quotaNotFound(projectID, resource)
	}
	return quota(r), classify(err, "read quota")
}

// Create stores a project's first quota of a resource. Fault Conflict if there is one.
func (x Quotas) Create(ctx context.Context, q magnum.Quota) (magnum.Quota, error) {
	r, err := x.s.InsertQuota(ctx, sqlc.InsertQuotaParams{ProjectID: q.ProjectID, Resource: q.Resource,
		HardLimit: q.HardLimit, CreatedAt: q.CreatedAt})
	if violates(err, "quotas_project_resource") {
		return q, fault.Wrap(fault.Conflict, err, "Quota for project %s already exists for resource %s.", q.ProjectID, q.Resource)
	}
	return quota(r), classify(err, "insert quota")
}

// Update sets the limit. Fault NotFound.
func (x Quotas) Update(ctx context.Context, projectID, resource string, hardLimit int, now time.Time) (magnum.Quota, error) {
	r, err := x.s.UpdateQuota(ctx, sqlc.UpdateQuotaParams{ProjectID: projectID, Resource: resource, HardLimit: hardLimit, UpdatedAt: &now})
	if noRows(err) {
		return magnum.Quota{}, quotaNotFound(projectID, resource)
	}
	return quota(r), classify(err, "update quota")
}

// Delete removes a quota: the default applies again. Fault NotFound.
func (x Quotas) Delete(ctx context.Context, projectID, resource string) error {
	n, err := x.s.DeleteQuota(ctx, sqlc.DeleteQuotaParams{ProjectID: projectID, Resource: resource})
	if err == nil && n == 0 {
		return quotaNotFound(projectID, resource)
	}
	return classify(err, "delete quota")
}
