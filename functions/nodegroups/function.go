// Package nodegroups is the HTTP function of /v1/clusters/{cluster}/nodegroups.
package nodegroups

import (
	"context"
	"net/http"
	"time"

	"carafe/shared/api"
	"carafe/shared/conductor"
	"carafe/shared/driver"
	"carafe/shared/function"
	"carafe/shared/identity"
	"carafe/shared/lookup"
	"carafe/shared/magnum"
	"carafe/shared/openstack"
	"carafe/shared/policy"
	"carafe/shared/postgres"
)

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "nodegroups", Kind: function.HTTP, Handlers: handlers}
}

func handlers(_ context.Context, p *function.Platform) (map[string]api.Handler, error) {
	s := &server{db: p.DB, clusters: lookup.Clusters{Rows: p.DB.Clusters, Policy: p.Policy}, conductor: p.Conductor, policy: p.Policy, drivers: p.Drivers, checks: p.Checks, now: p.Now}
	return map[string]api.Handler{
		"nodegroup_list": s.list, "nodegroup_show": s.show, "nodegroup_create": s.create,
		"nodegroup_update": s.update, "nodegroup_delete": s.delete,
	}, nil
}

type server struct {
	db        *postgres.DB
	clusters  lookup.Clusters
	conductor *conductor.Conductor
	policy    *policy.Enforcer
	drivers   *driver.Registry
	checks    openstack.Checks
	now       func() time.Time
}

// find asks the rule and looks the cluster up; an admin reaches all projects if
// the second rule lets it (B62).
func (s *server) find(r *http.Request, rule, allProjects string) (postgres.ClusterRow, identity.Caller, error) {
	if err := s.policy.Enforce(identity.From(r.Context()), rule, nil); err != nil {
		return postgres.ClusterRow{}, identity.Caller{}, err
	}
	return s.clusters.Reach(r.Context(), api.Path(r, "cluster_id"), allProjects)
}

// list serves GET …/nodegroups.
func (s *server) list(w http.ResponseWriter, r *http.Request) error {
	c, _, err := s.find(r, "nodegroup:get_all", "nodegroup:get_all_all_projects")
	if err != nil {
		return err
	}
	page, err := api.ParsePage(r, api.NodeGroupSortKeys)
	if err != nil {
		return err
	}
	rows, err := s.db.NodeGroups.List(r.Context(), c.UUID, api.QueryOf(r).Text("role"), lookup.Page(page))
	if err != nil {
		return err
	}
	return api.WritePage(w, r, page, api.List[magnum.NodeGroup, listed]{Name: "nodegroups", Path: "clusters/" + c.UUID + "/nodegroups",
		Rows: rows, ID: func(n *magnum.NodeGroup) string { return n.UUID },
		Show: func(n *magnum.NodeGroup) listed { return listedOf(*n) }})
}

// show serves GET …/nodegroups/{ident}.
func (s *server) show(w http.ResponseWriter, r *http.Request) error {
	c, _, err := s.find(r, "nodegroup:get", "nodegroup:get_one_all_projects")
	if err != nil {
		return err
	}
	n, err := s.db.NodeGroups.Get(r.Context(), c.UUID, lookup.Ident(api.Path(r, "nodegroup_id")))
	if err != nil {
		return err
	}
	api.SetETag(w, n.Revision)
	return api.WriteJSON(w, http.StatusOK, fullOf(r.Context(), n, c.Labels))
}
