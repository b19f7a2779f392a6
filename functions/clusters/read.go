package clusters

import (
	"net/http"

	"carafe/shared/api"
	"carafe/shared/identity"
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
		rows, more, err := s.page(r, caller, page, detail)
		if err != nil {
			return err
		}
		answer := struct {
			Clusters any    `json:"clusters"`
			Next     string `json:"next,omitempty"`
		}{}
		path := "clusters"
		if detail {
			path = "clusters/detail"
			list := make([]full, len(rows))
			for i := range rows {
				list[i] = fullOf(ctx, &rows[i])
			}
			answer.Clusters = list
		} else {
			list := make([]listed, len(rows))
			for i := range rows {
				list[i] = listedOf(ctx, &rows[i])
			}
			answer.Clusters = list
		}
		if more {
			answer.Next = api.Next(r, path, page, rows[len(rows)-1].UUID)
		}
		return api.WriteJSON(w, http.StatusOK, answer)
	}
}

// page reads one row more than asked for: it tells whether there is a next page.
func (s *server) page(r *http.Request, caller identity.Caller, page api.Page, detail bool) ([]postgres.ClusterRow, bool, error) {
	q := api.QueryOf(r)
	filter := postgres.ClusterFilter{Status: q.Text("status"), Name: q.Text("name"),
		ClusterTemplateID: q.Text("cluster_template_id"), HealthStatus: q.Text("health_status")}
	if since := q.Time("changed-since"); !since.IsZero() {
		filter.ChangedSince = &since
	}
	rows, err := s.db.Clusters.List(r.Context(), postgres.ScopeOf(caller, true), filter,
		postgres.Page{Limit: page.Limit + 1, Marker: page.Marker, SortKey: page.SortKey, Desc: page.Desc}, detail)
	if err == nil {
		err = page.CheckSortKey()
	}
	if err != nil || len(rows) <= page.Limit {
		return rows, false, err
	}
	return rows[:page.Limit], true, nil
}

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
