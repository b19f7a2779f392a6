// Package carotate is the function that takes magnum.conductor.ca.rotate: a
// rotation in two phases. The new authorities are made, the driver installs
// them, and only when the cluster runs with them do they come into force here
// (PB-35). The old ones are kept for a grace, and then swept (PB-36). A rotation of
// the leaves keeps the authorities and has the driver renew what they have signed.
package carotate

import (
	"context"
	"net/http"

	"carafe/shared/certstore"
	"carafe/shared/conductor"
	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/function"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
)

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "carotate", Kind: function.Event, Build: build}
}

func build(_ context.Context, p *function.Platform) (http.Handler, error) {
	return p.Conductor.Handler(magnum.CARotate,
		conductor.Step{Name: "certificates", Do: certificates},
		conductor.Step{Name: conductor.ApplyStep, Do: install, Await: true},
		conductor.Step{Name: "activate", Do: activate},
	), nil
}

// certificates makes the new epoch beside the one in force.
func certificates(ctx context.Context, r *conductor.Run) error {
	a, err := conductor.Arguments[magnum.RotateArguments](r.Operation)
	if err != nil || a.Leaf {
		return err
	}
	return r.Secrets.Ensure(ctx, r.Operation.ClusterID, a.Epoch)
}

// install hands the new epoch to the driver, or has it renew the leaves that are
// older than the wish.
func install(ctx context.Context, r *conductor.Run) error {
	a, err := conductor.Arguments[magnum.RotateArguments](r.Operation)
	if err != nil {
		return err
	}
	if a.Leaf {
		rotator, ok := r.Driver.(driver.LeafRotator)
		if !ok {
			return fault.New(fault.Invalid, "Renewing the certificates of the control plane is not supported by this driver.")
		}
		return rotator.RotateLeaf(ctx, r.Subject.Ref(), r.Operation.CreatedAt)
	}
	rotator, ok := r.Driver.(driver.CARotator)
	if !ok {
		return fault.New(fault.Invalid, "'rotate_ca_certificate' is not supported by this driver.")
	}
	desired, err := r.Desired(ctx)
	if err != nil {
		return err
	}
	next, err := r.Secrets.Load(ctx, r.Operation.ClusterID, a.Epoch)
	if err != nil {
		return err
	}
	desired.Certificates = &next
	return rotator.RotateCA(ctx, desired)
}

// activate lets the new epoch sign, now that the cluster trusts it.
func activate(ctx context.Context, r *conductor.Run) error {
	a, err := conductor.Arguments[magnum.RotateArguments](r.Operation)
	if err != nil || a.Leaf {
		return err
	}
	return r.Change(ctx, func(tx *postgres.Store, _ *conductor.Subject) error {
		return certstore.Activate(ctx, tx.Secrets, r.Operation.ClusterID, a.Epoch)
	})
}
