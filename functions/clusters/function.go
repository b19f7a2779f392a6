// Package clusters is the HTTP function of /v1/clusters: list, show, create,
// patch, delete, and a cluster's history.
package clusters

import (
	"context"
	"time"

	"carafe/shared/api"
	"carafe/shared/conductor"
	"carafe/shared/driver"
	"carafe/shared/function"
	"carafe/shared/lookup"
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
	// Stacks shows stack_id in every version where the function stacks answers for
	// Heat: magnum-auto-healer asks for the latest version, which calls it
	// cluster_id, and then looks for the stack that stack_id names.
	Stacks bool `envconfig:"CARAFE_STACKS" default:"false"`
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
	s := &server{config: c, db: p.DB, clusters: lookup.Clusters{Rows: p.DB.Clusters, Policy: p.Policy}, conductor: p.Conductor,
		policy: p.Policy, drivers: p.Drivers,
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
	clusters  lookup.Clusters
	conductor *conductor.Conductor
	policy    *policy.Enforcer
	drivers   *driver.Registry
	checks    openstack.Checks
	options   openstack.Options
	now       func() time.Time
}

// show is what it takes to see a cluster.
var show = lookup.Rules{AllProjects: "cluster:get_one_all_projects", Action: "cluster:get"}
