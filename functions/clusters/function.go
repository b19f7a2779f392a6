// Package clusters is the HTTP function of /v1/clusters: list, show, create,
// patch, delete, and a cluster's history.
package clusters

import (
	"context"
	"net/http"
	"time"

	"carafe/shared/api"
	"carafe/shared/conductor"
	"carafe/shared/driver"
	"carafe/shared/function"
	"carafe/shared/identity"
	"carafe/shared/magnum"
	"carafe/shared/openstack"
	"carafe/shared/policy"
	"carafe/shared/postgres"
)

// Config is the environment of clusters.
type Config struct {
	// MaxPerProject is the quota of projects that have none of their own.
	// magnum.conf [quotas] max_clusters_per_project.
	MaxPerProject int `envconfig:"CARAFE_MAX_CLUSTERS_PER_PROJECT" default:"20"`
	// OwnHiddenTemplates lets a project make clusters from its own hidden
	// templates; without it, hiding retires a template, as with Magnum (B26).
	OwnHiddenTemplates bool `envconfig:"CARAFE_OWN_HIDDEN_TEMPLATES"`
}

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "clusters", Kind: function.HTTP, Handlers: handlers}
}

func handlers(_ context.Context, p *function.Platform) (map[string]api.Handler, error) {
	var c Config
	if err := function.ReadConfig(&c); err != nil {
		return nil, err
	}
	s := &server{config: c, db: p.DB, conductor: p.Conductor, policy: p.Policy, drivers: p.Drivers,
		checks: p.Checks, options: p.Options, now: p.Now}
	return map[string]api.Handler{
		"cluster_list":       s.list(false),
		"cluster_detail":     s.list(true),
		"cluster_show":       s.show,
		"cluster_create":     s.create,
		"cluster_update":     s.update,
		"cluster_delete":     s.delete,
		"cluster_operations": s.operations,
		"cluster_events":     s.events,
	}, nil
}

type server struct {
	config    Config
	db        *postgres.DB
	conductor *conductor.Conductor
	policy    *policy.Enforcer
	drivers   *driver.Registry
	checks    openstack.Checks
	options   openstack.Options
	now       func() time.Time
}

// find looks a cluster up for an action on it: an admin reaches all projects if
// the rule of that name lets it, and the action's own rule is asked with the
// cluster as its target.
func (s *server) find(r *http.Request, allProjects, rule string) (postgres.ClusterRow, identity.Caller, error) {
	ctx := r.Context()
	caller := identity.From(ctx)
	if caller.IsAdmin {
		if err := s.policy.Enforce(caller, allProjects, nil); err != nil {
			return postgres.ClusterRow{}, caller, err
		}
	}
	c, err := s.db.Clusters.Get(ctx, postgres.ScopeOf(caller, true), ident(api.Path(r, "cluster_ident")))
	if err != nil {
		return c, caller, err
	}
	return c, caller, s.policy.Enforce(caller, rule, target(c.Cluster))
}

func ident(text string) postgres.Ident {
	i := api.ParseIdent(text)
	return postgres.Ident{UUID: i.UUID, Text: i.Text}
}

// target is a cluster as policy rules see it.
func target(c magnum.Cluster) map[string]string {
	return map[string]string{"project_id": c.ProjectID, "user_id": c.UserID, "name": c.Name, "uuid": c.UUID,
		"cluster_template_id": c.ClusterTemplateID}
}
