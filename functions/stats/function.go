// Package stats is the HTTP function of /v1/stats.
package stats

import (
	"context"
	"net/http"
	"strings"

	"carafe/shared/api"
	"carafe/shared/fault"
	"carafe/shared/function"
	"carafe/shared/identity"
	"carafe/shared/policy"
	"carafe/shared/postgres"
)

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "stats", Kind: function.HTTP, Handlers: handlers}
}

func handlers(_ context.Context, p *function.Platform) (map[string]api.Handler, error) {
	s := &server{clusters: p.DB.Clusters, policy: p.Policy}
	return map[string]api.Handler{"stats_show": s.show}, nil
}

type server struct {
	clusters postgres.Clusters
	policy   *policy.Enforcer
}

// show serves GET /v1/stats: of the caller's project; an admin may ask for any,
// and without a project for all together.
func (s *server) show(w http.ResponseWriter, r *http.Request) error {
	caller := identity.From(r.Context())
	if err := s.policy.Enforce(caller, "stats:get_all", nil); err != nil {
		return err
	}
	q := api.QueryOf(r)
	if kind := q.Text("type"); q.Has("type") && strings.ToLower(kind) != "cluster" {
		return fault.New(fault.Invalid, "Invalid stats type. Allowed values are 'cluster'")
	}
	project := q.Text("project_id")
	if !caller.IsAdmin {
		if project != "" && project != caller.ProjectID {
			return fault.New(fault.Forbidden, "Not authorized.")
		}
		project = caller.ProjectID
	}
	clusters, nodes, err := s.clusters.Stats(r.Context(), project)
	if err != nil {
		return err
	}
	return api.WriteJSON(w, http.StatusOK, struct {
		Clusters int   `json:"clusters"`
		Nodes    int64 `json:"nodes"`
	}{clusters, nodes})
}
