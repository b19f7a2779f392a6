package clusters

import (
	"net/http"

	"carafe/shared/api"
	"carafe/shared/identity"
	"carafe/shared/lookup"
	"carafe/shared/postgres"
)

// list serves GET /v1/clusters and /v1/clusters/detail.
func (s *server) list(detail bool) api.Handler {
	rule, allProjects := "cluster:get_all", "cluster:get_all_all_projects"
	if detail {
		rule, allProjects = "cluster:detail", "cluster:detail_all_projects"
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx := r.Context()
		caller := identity.From(ctx)
		if err := s.policy.Enforce(caller, rule, nil); err != nil {
			return err
		}
		if caller.IsAdmin {
			if err := s.policy.Enforce(caller, allProjects, nil); err != nil {
				return err
			}
		}
		page, err := api.ParsePage(r, postgres.ClusterSortKeys())
		if err != nil {
			return err
		}
		q := api.QueryOf(r)
		filter := postgres.ClusterFilter{Status: q.Text("status"), Name: q.Text("name"),
			ClusterTemplateID: q.Text("cluster_template_id"), HealthStatus: q.Text("health_status")}
		if since := q.Time("changed-since"); !since.IsZero() {
			filter.ChangedSince = &since
		}
		rows, err := s.db.Clusters.List(ctx, postgres.ScopeOf(caller, true), filter, lookup.Page(page), detail)
		if err != nil {
			return err
		}
		if detail {
			return api.WritePage(w, r, page, api.List[postgres.ClusterRow, full]{Name: "clusters", Path: "clusters/detail", Rows: rows, ID: rowID,
				Show: func(c *postgres.ClusterRow) full { return fullOf(ctx, c) }})
		}
		return api.WritePage(w, r, page, api.List[postgres.ClusterRow, listed]{Name: "clusters", Path: "clusters", Rows: rows, ID: rowID,
			Show: func(c *postgres.ClusterRow) listed { return listedOf(ctx, c) }})
	}
}

func rowID(c *postgres.ClusterRow) string { return c.UUID }

// show serves GET /v1/clusters/{ident}.
func (s *server) show(w http.ResponseWriter, r *http.Request) error {
	c, _, err := s.clusters.Find(r.Context(), api.Path(r, "cluster_ident"), show)
	if err != nil {
		return err
	}
	api.SetETag(w, c.Version)
	f := fullOf(r.Context(), &c)
	if s.config.Stacks {
		f.StackID = &c.StackID
	}
	return api.WriteJSON(w, http.StatusOK, f)
}
