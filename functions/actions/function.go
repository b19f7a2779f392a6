// Package actions is the HTTP function of /v1/clusters/{cluster}/actions: resize
// and upgrade.
package actions

import (
	"context"
	"net/http"
	"time"

	"carafe/shared/api"
	"carafe/shared/conductor"
	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/function"
	"carafe/shared/identity"
	"carafe/shared/magnum"
	"carafe/shared/policy"
	"carafe/shared/postgres"
)

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "actions", Kind: function.HTTP, Handlers: handlers}
}

func handlers(_ context.Context, p *function.Platform) (map[string]api.Handler, error) {
	s := &server{db: p.DB, conductor: p.Conductor, policy: p.Policy, drivers: p.Drivers, now: p.Now}
	return map[string]api.Handler{"cluster_resize": s.resize, "cluster_upgrade": s.upgrade}, nil
}

type server struct {
	db        *postgres.DB
	conductor *conductor.Conductor
	policy    *policy.Enforcer
	drivers   *driver.Registry
	now       func() time.Time
}

// find looks the cluster up. An admin reaches those of all projects by the
// action's own rule for that (B62).
func (s *server) find(r *http.Request, allProjects, rule string) (postgres.ClusterRow, identity.Caller, error) {
	ctx := r.Context()
	caller := identity.From(ctx)
	if caller.IsAdmin {
		if err := s.policy.Enforce(caller, allProjects, nil); err != nil {
			return postgres.ClusterRow{}, caller, err
		}
	}
	i := api.ParseIdent(api.Path(r, "cluster_ident"))
	c, err := s.db.Clusters.Get(ctx, postgres.ScopeOf(caller, true), postgres.Ident{UUID: i.UUID, Text: i.Text})
	if err != nil {
		return c, caller, err
	}
	return c, caller, s.policy.Enforce(caller, rule, map[string]string{"project_id": c.ProjectID, "user_id": c.UserID, "uuid": c.UUID})
}

// nodeGroup finds the group that a request names, or the default workers.
func nodeGroup(ctx context.Context, tx *postgres.Store, s *conductor.Subject, named *string) (*magnum.NodeGroup, error) {
	if named == nil {
		if n := s.DefaultWorker(); n != nil {
			return n, nil
		}
		return nil, fault.New(fault.Conflict, "Cluster %s has no default worker nodegroup.", s.Cluster.UUID) // PB-09
	}
	i := api.ParseIdent(*named)
	n, err := tx.NodeGroups.Get(ctx, s.Cluster.UUID, postgres.Ident{UUID: i.UUID, Text: i.Text})
	if err != nil {
		return nil, err
	}
	return s.NodeGroup(n.UUID), nil
}

// accepted answers 202, and lets the events leave behind the answer.
func (s *server) accepted(w http.ResponseWriter, r *http.Request, uuid string) error {
	if err := api.WriteJSON(w, http.StatusAccepted, api.Accepted{UUID: uuid}); err != nil {
		return err
	}
	if err := api.Flush(w); err != nil {
		return err
	}
	s.conductor.Published(r.Context())
	return nil
}
