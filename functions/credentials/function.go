// Package credentials is the HTTP function of /v1/credentials: it begins the
// rotation of what a cluster does in its user's name.
package credentials

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"carafe/shared/api"
	"carafe/shared/certstore"
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
	return function.Function{Name: "credentials", Kind: function.HTTP, Handlers: handlers}
}

func handlers(_ context.Context, p *function.Platform) (map[string]api.Handler, error) {
	s := &server{db: p.DB, conductor: p.Conductor, policy: p.Policy, drivers: p.Drivers, secrets: p.Secrets}
	return map[string]api.Handler{"credential_rotate": s.rotate}, nil
}

type server struct {
	db        *postgres.DB
	conductor *conductor.Conductor
	policy    *policy.Enforcer
	drivers   *driver.Registry
	secrets   *certstore.Store
}

// rotate serves PATCH /v1/credentials/{cluster}. The new application credential
// is the caller's, and it is made here, while the token is at hand; Keystone's
// refusal is the caller's answer. The lifecycle status has no part in it (PB-37).
func (s *server) rotate(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	c, caller, err := s.find(ctx, api.Path(r, "cluster_ident"))
	if err != nil {
		return err
	}
	d, err := s.rotatable(c)
	if err != nil {
		return err
	}
	var made *driver.Credential
	if d.Describe().Credential {
		if s.conductor.Delegation == nil {
			return fault.New(fault.NotImplemented, "Rotating credentials needs Keystone, which is not configured.")
		}
		credential, err := s.conductor.Delegation.Delegate(ctx, caller, c.UUID, c.Name)
		if err != nil {
			return err
		}
		made = &credential
	}
	if err := s.accept(ctx, caller, c.UUID, made); err != nil {
		if made != nil {
			s.takeBack(ctx, caller, c.UUID, *made)
		}
		return err
	}
	if err := api.WriteJSON(w, http.StatusAccepted, api.Accepted{UUID: c.UUID}); err != nil {
		return err
	}
	if err := api.Flush(w); err != nil {
		return err
	}
	s.conductor.Published(ctx)
	return nil
}

// accept records the wish and the new credential, if there is one, together.
func (s *server) accept(ctx context.Context, caller identity.Caller, clusterID string, made *driver.Credential) error {
	return s.conductor.Accept(ctx, caller, clusterID, func(ctx context.Context, tx *postgres.Store, subject *conductor.Subject) (*conductor.Wish, error) {
		if _, err := s.rotatable(subject.Cluster); err != nil {
			return nil, err
		}
		epoch, err := certstore.NextCredentialEpoch(ctx, tx.Secrets, clusterID)
		if err != nil {
			return nil, err
		}
		if made != nil {
			made.Epoch = epoch
			if err := s.secrets.PutCredential(ctx, tx.Secrets, clusterID, caller.UserID, *made); err != nil {
				return nil, err
			}
		}
		return &conductor.Wish{Kind: magnum.CredentialRotate, Arguments: magnum.RotateArguments{Epoch: epoch},
			// The last wish counts: its epoch retires those before it.
			Supersedes: func(o magnum.Operation) bool { return o.Kind == magnum.CredentialRotate }}, nil
	})
}

// rotatable refuses what cannot be, and gives the cluster's driver.
func (s *server) rotatable(c magnum.Cluster) (driver.Driver, error) {
	if err := conductor.Allow(magnum.Changing, c.Status, "Rotating the credential of a cluster"); err != nil { // B79
		return nil, err
	}
	d, err := s.drivers.Named(c.Driver)
	if err != nil {
		return nil, err
	}
	if !d.Describe().RotateCredential {
		return nil, fault.New(fault.Invalid, "Credential rotation is not supported by driver.")
	}
	return d, nil
}

// takeBack revokes a credential that came to nothing.
func (s *server) takeBack(ctx context.Context, caller identity.Caller, clusterID string, made driver.Credential) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := s.conductor.Delegation.Revoke(ctx, caller.UserID, made.ID, clusterID); err != nil {
		slog.ErrorContext(ctx, "an unused application credential stays in Keystone", "cluster", clusterID,
			"credential", made.ID, "user", caller.UserID, "err", err)
	}
}

// find looks a cluster up. An admin reaches all projects if the rule lets it
// (B62), and the cluster is the target of the rule (B23).
func (s *server) find(ctx context.Context, ident string) (magnum.Cluster, identity.Caller, error) {
	caller := identity.From(ctx)
	everywhere := caller.IsAdmin && s.policy.Allows(caller, "credential:rotate_all_projects", nil)
	id := api.ParseIdent(ident)
	if id.Impossible() {
		return magnum.Cluster{}, caller, fault.New(fault.NotFound, "Cluster %s could not be found.", ident)
	}
	c, err := s.db.Clusters.Get(ctx, postgres.ScopeOf(caller, everywhere), postgres.Ident{UUID: id.UUID, Text: id.Text})
	if err != nil {
		return magnum.Cluster{}, caller, err
	}
	return c.Cluster, caller, s.policy.Enforce(caller, "credential:rotate", map[string]string{
		"project_id": c.ProjectID, "user_id": c.UserID, "name": c.Name, "uuid": c.UUID, "cluster_template_id": c.ClusterTemplateID,
	})
}
