// Package lookup finds the cluster that a request names, as far as its caller
// may see it and do to it what it asks for (spec/api.md §2.4, §4.0.4, §4.0.7).
package lookup

import (
	"context"

	"carafe/shared/identity"
	"carafe/shared/magnum"
	"carafe/shared/policy"
	"carafe/shared/postgres"

	"carafe/shared/api"
)

// Clusters finds clusters.
type Clusters struct {
	Rows   postgres.Clusters
	Policy *policy.Enforcer
}

// Rules are the policy rules of an action on a cluster. AllProjects lets an
// admin reach those of other projects; Action is asked with the cluster as its
// target.
type Rules struct{ AllProjects, Action string }

// Find finds the cluster that the ident means. Faults: Forbidden, NotFound,
// Conflict if several have the name.
func (c Clusters) Find(ctx context.Context, ident string, rules Rules) (postgres.ClusterRow, identity.Caller, error) {
	row, caller, err := c.Reach(ctx, ident, rules.AllProjects)
	if err != nil {
		return row, caller, err
	}
	return row, caller, c.Policy.Enforce(caller, rules.Action, Target(row.Cluster))
}

// Reach finds a cluster whose action was asked about already, without it as a
// target.
func (c Clusters) Reach(ctx context.Context, ident, allProjects string) (postgres.ClusterRow, identity.Caller, error) {
	caller := identity.From(ctx)
	if caller.IsAdmin {
		if err := c.Policy.Enforce(caller, allProjects, nil); err != nil {
			return postgres.ClusterRow{}, caller, err
		}
	}
	row, err := c.Rows.Get(ctx, postgres.ScopeOf(caller, true), Ident(ident))
	return row, caller, err
}

// Ident sorts what a request calls an object by.
func Ident(text string) postgres.Ident {
	i := api.ParseIdent(text)
	return postgres.Ident{UUID: i.UUID, Text: i.Text}
}

// Page asks for the rows of a page, and for one more, which tells whether there is
// a next one.
func Page(p api.Page) postgres.Page {
	return postgres.Page{Limit: p.Limit + 1, Marker: p.Marker, SortKey: p.SortKey, Desc: p.Desc}
}

// Target is a cluster as policy rules see it.
func Target(c magnum.Cluster) map[string]string {
	return map[string]string{"project_id": c.ProjectID, "user_id": c.UserID, "name": c.Name, "uuid": c.UUID,
		"cluster_template_id": c.ClusterTemplateID}
}
