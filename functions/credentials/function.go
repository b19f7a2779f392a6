// Package credentials is the HTTP function of /v1/credentials: it begins the
// rotation of what a cluster does in its user's name.
package credentials

import (
	"context"
	"net/http"

	"carafe/shared/api"
	"carafe/shared/certstore"
	"carafe/shared/conductor"
	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/function"
	"carafe/shared/identity"
	"carafe/shared/lookup"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
)

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "credentials", Kind: function.HTTP, Handlers: handlers}
}

func handlers(_ context.Context, p *function.Platform) (map[string]api.Handler, error) {
	s := &server{clusters: lookup.Clusters{Rows: p.DB.Clusters, Policy: p.Policy}, conductor: p.Conductor, drivers: p.Drivers, secrets: p.Secrets}
	return map[string]api.Handler{"credential_rotate": s.rotate}, nil
}

type server struct {
	clusters  lookup.Clusters
	conductor *conductor.Conductor
	drivers   *driver.Registry
	secrets   *certstore.Store
}

// rotate serves PATCH /v1/credentials/{cluster}. The new application credential
// is the caller's, and it is made here, while the token is at hand; Keystone's
// refusal is the caller's answer. The lifecycle status has no part in it (PB-37).
func (s *server) rotate(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	c, caller, err := s.clusters.Find(ctx, api.Path(r, "cluster_ident"),
		lookup.Rules{AllProjects: "credential:rotate_all_projects", Action: "credential:rotate"}) // B23, B62
	if err != nil {
		return err
	}
	d, err := s.rotatable(c.Cluster)
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
			s.conductor.TakeBack(ctx, caller, c.UUID, made.ID)
		}
		return err
	}
	return s.conductor.Accepted(w, r, c.UUID)
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
