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
// the driver has installed the new ones (functions/carotate). With leaf, in the
// query or the body, they stay, and only what they have signed is renewed.
func (s *server) rotate(w http.ResponseWriter, r *http.Request) error {
	c, caller, err := s.clusters.Find(r.Context(), api.Path(r, "cluster_ident"),
		lookup.Rules{AllProjects: "certificate:rotate_ca_all_projects", Action: "certificate:rotate_ca"})
	if err != nil {
		return err
	}
	leaf := api.QueryOf(r).Bool("leaf")
	err = s.conductor.Accept(r.Context(), caller, c.UUID, func(ctx context.Context, tx *postgres.Store, subject *conductor.Subject) (*conductor.Wish, error) {
		if err := s.rotatable(subject, leaf); err != nil {
			return nil, err
		}
		arguments := magnum.RotateArguments{Leaf: leaf}
		if !leaf {
			var err error
			if arguments.Epoch, err = certstore.NextEpoch(ctx, tx.Secrets, c.UUID); err != nil {
				return nil, err
			}
		}
		if err := subject.Begin(ctx, tx, magnum.UpdateInProgress, s.now()); err != nil {
			return nil, err
		}
		return &conductor.Wish{Kind: magnum.CARotate, Arguments: arguments}, nil
	})
	if err != nil {
		return err
	}
	return s.conductor.Accepted(w, r, c.UUID)
}

func (s *server) rotatable(subject *conductor.Subject, leaf bool) error {
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
	can := d.Describe()
	switch {
	case leaf && !can.RotateLeaf:
		return fault.New(fault.Invalid, "Renewing the certificates of the control plane is not supported by this driver.")
	case !leaf && !can.RotateCA && can.RotateLeaf:
		return fault.New(fault.Invalid, `'rotate_ca_certificate' is not supported by this driver. With {"leaf": true} the certificates of the control plane are renewed under the authorities that there are.`)
	case !leaf && !can.RotateCA:
		return fault.New(fault.Invalid, "'rotate_ca_certificate' is not supported by this driver.")
	}
	return nil
}
