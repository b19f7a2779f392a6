package certificates

import (
	"context"
	"net/http"

	"carafe/shared/api"
	"carafe/shared/certstore"
	"carafe/shared/conductor"
	"carafe/shared/fault"
	"carafe/shared/lookup"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
)

// rotate serves PATCH /v1/certificates/{cluster}. What cannot be is refused here,
// before anything is made (PB-35); the authorities in force stay in force until
// the driver has installed the new ones (functions/carotate).
func (s *server) rotate(w http.ResponseWriter, r *http.Request) error {
	c, caller, err := s.clusters.Find(r.Context(), api.Path(r, "cluster_ident"),
		lookup.Rules{AllProjects: "certificate:rotate_ca_all_projects", Action: "certificate:rotate_ca"})
	if err != nil {
		return err
	}
	err = s.conductor.Accept(r.Context(), caller, c.UUID, func(ctx context.Context, tx *postgres.Store, subject *conductor.Subject) (*conductor.Wish, error) {
		if err := s.rotatable(subject); err != nil {
			return nil, err
		}
		epoch, err := certstore.NextEpoch(ctx, tx.Secrets, c.UUID)
		if err != nil {
			return nil, err
		}
		if err := subject.Begin(ctx, tx, magnum.UpdateInProgress, s.now()); err != nil {
			return nil, err
		}
		return &conductor.Wish{Kind: magnum.CARotate, Arguments: magnum.RotateArguments{Epoch: epoch}}, nil
	})
	if err != nil {
		return err
	}
	return s.conductor.Accepted(w, r, c.UUID)
}

func (s *server) rotatable(subject *conductor.Subject) error {
	if subject.Template.TLSDisabled {
		return fault.New(fault.Invalid, "Rotating the CA certificate on a non-TLS cluster is not supported")
	}
	if err := conductor.Allow(magnum.Steady, subject.Cluster.Status, "Updating a cluster"); err != nil {
		return err
	}
	d, err := s.drivers.Named(subject.Cluster.Driver)
	if err != nil {
		return err
	}
	if !d.Describe().RotateCA {
		return fault.New(fault.Invalid, "'rotate_ca_certificate' is not supported by this driver.")
	}
	return nil
}
