// Package clustertemplates is the HTTP function of /v1/clustertemplates.
package clustertemplates

import (
	"context"
	"net/http"
	"time"

	"carafe/shared/api"
	"carafe/shared/driver"
	"carafe/shared/fault"
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
	return function.Function{Name: "clustertemplates", Kind: function.HTTP, Handlers: handlers}
}

func handlers(_ context.Context, p *function.Platform) (map[string]api.Handler, error) {
	s := &server{templates: p.DB.Templates, policy: p.Policy, drivers: p.Drivers, checks: p.Checks, options: p.Options, now: p.Now}
	return map[string]api.Handler{
		"clustertemplate_list":   s.list("clustertemplate:get_all", "clustertemplate:get_all_all_projects", "clustertemplates"),
		"clustertemplate_detail": s.list("clustertemplate:detail", "clustertemplate:detail_all_projects", "clustertemplates/detail"),
		"clustertemplate_show":   s.show,
		"clustertemplate_create": s.create,
		"clustertemplate_update": s.update,
		"clustertemplate_delete": s.delete,
	}, nil
}

type server struct {
	templates postgres.Templates
	policy    *policy.Enforcer
	drivers   *driver.Registry
	checks    openstack.Checks
	options   openstack.Options
	now       func() time.Time
}

// find looks a template up. An admin reaches those of all projects if the rule
// of that name lets it.
func (s *server) find(r *http.Request, allProjects string) (magnum.ClusterTemplate, identity.Caller, error) {
	caller := identity.From(r.Context())
	if caller.IsAdmin {
		if err := s.policy.Enforce(caller, allProjects, nil); err != nil {
			return magnum.ClusterTemplate{}, caller, err
		}
	}
	t, err := s.templates.Get(r.Context(), postgres.ScopeOf(caller, true), lookup.Ident(api.Path(r, "cluster_template_ident")))
	return t, caller, err
}

// target is a template as policy rules see it.
func target(t magnum.ClusterTemplate) map[string]string {
	return map[string]string{"project_id": t.ProjectID, "user_id": t.UserID, "name": t.Name, "uuid": t.UUID}
}

// list serves GET /v1/clustertemplates and /v1/clustertemplates/detail: the same
// objects under two rules.
func (s *server) list(rule, allProjects, path string) api.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		caller := identity.From(r.Context())
		if err := s.policy.Enforce(caller, rule, nil); err != nil {
			return err
		}
		if caller.IsAdmin {
			if err := s.policy.Enforce(caller, allProjects, nil); err != nil {
				return err
			}
		}
		page, err := api.ParsePage(r, api.ClusterTemplateSortKeys)
		if err != nil {
			return err
		}
		rows, err := s.templates.List(r.Context(), postgres.ScopeOf(caller, true), lookup.Page(page))
		if err != nil {
			return err
		}
		return api.WritePage(w, r, page, api.List[magnum.ClusterTemplate, template]{Name: "clustertemplates", Path: path,
			Rows: rows, ID: func(t *magnum.ClusterTemplate) string { return t.UUID },
			Show: func(t *magnum.ClusterTemplate) template { return templateOf(r.Context(), *t) }})
	}
}

// show serves GET /v1/clustertemplates/{ident}. A public template is shown to
// whoever has a token, whatever its roles.
func (s *server) show(w http.ResponseWriter, r *http.Request) error {
	t, caller, err := s.find(r, "clustertemplate:get_one_all_projects")
	if err != nil {
		return err
	}
	if !t.Public {
		if err := s.policy.Enforce(caller, "clustertemplate:get", target(t)); err != nil {
			return err
		}
	}
	api.SetETag(w, t.Version)
	return api.WriteJSON(w, http.StatusOK, templateOf(r.Context(), t))
}

// delete serves DELETE /v1/clustertemplates/{ident}.
func (s *server) delete(w http.ResponseWriter, r *http.Request) error {
	t, caller, err := s.find(r, "clustertemplate:delete_all_projects")
	if err != nil {
		return err
	}
	if err := s.policy.Enforce(caller, "clustertemplate:delete", target(t)); err != nil {
		return err
	}
	if err := api.CheckIfMatch(r, t.Version); err != nil {
		return err
	}
	if err := s.templates.Delete(r.Context(), t.UUID); err != nil {
		return err
	}
	return api.NoContent(w)
}

// mayPublish refuses public and hidden to those who may not show a template to
// other projects, with a text of its own.
func (s *server) mayPublish(caller identity.Caller) error {
	if err := s.policy.Enforce(caller, "clustertemplate:publish", nil); err != nil {
		return fault.Wrap(fault.Forbidden, err, "Not authorized to set public or hidden flag for cluster template.")
	}
	return nil
}
