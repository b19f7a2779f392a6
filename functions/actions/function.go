// Package actions is the HTTP function of /v1/clusters/{cluster}/actions: resize
// and upgrade.
package actions

import (
	"context"
	"time"

	"carafe/shared/api"
	"carafe/shared/conductor"
	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/function"
	"carafe/shared/lookup"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
)

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "actions", Kind: function.HTTP, Handlers: handlers}
}

func handlers(_ context.Context, p *function.Platform) (map[string]api.Handler, error) {
	s := &server{clusters: lookup.Clusters{Rows: p.DB.Clusters, Policy: p.Policy}, templates: p.DB.Templates,
		conductor: p.Conductor, drivers: p.Drivers, now: p.Now}
	return map[string]api.Handler{"cluster_resize": s.resize, "cluster_upgrade": s.upgrade}, nil
}

type server struct {
	clusters  lookup.Clusters
	templates postgres.Templates
	conductor *conductor.Conductor
	drivers   *driver.Registry
	now       func() time.Time
}

// nodeGroup finds the group that a request names, or the default workers.
func nodeGroup(ctx context.Context, tx *postgres.Store, s *conductor.Subject, named *string) (*magnum.NodeGroup, error) {
	if named == nil {
		if n := s.DefaultWorker(); n != nil {
			return n, nil
		}
		return nil, fault.New(fault.Conflict, "Cluster %s has no default worker nodegroup.", s.Cluster.UUID) // PB-09
	}
	n, err := tx.NodeGroups.Get(ctx, s.Cluster.UUID, lookup.Ident(*named))
	if err != nil {
		return nil, err
	}
	return s.NodeGroup(n.UUID), nil
}
