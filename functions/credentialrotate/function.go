// Package credentialrotate is the function that takes
// magnum.conductor.credential.rotate: the driver gives the cluster its new
// application credential, which then comes into force here, and the old one is
// revoked. The lifecycle status of the cluster has no part in it (PB-37).
package credentialrotate

import (
	"context"
	"log/slog"
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
	return function.Function{Name: "credentialrotate", Kind: function.Event, Build: build}
}

func build(_ context.Context, p *function.Platform) (http.Handler, error) {
	return p.Conductor.Handler(magnum.CredentialRotate,
		conductor.Step{Name: conductor.ApplyStep, Do: install},
		conductor.Step{Name: "activate", Do: activate},
		conductor.Step{Name: "revoke", Do: revoke},
	), nil
}

// install gives the new credential to the driver, as often as it takes: the
// driver says Unavailable until the cluster works with it.
func install(ctx context.Context, r *conductor.Run) error {
	rotator, ok := r.Driver.(driver.CredentialRotator)
	if !ok {
		return fault.New(fault.Invalid, "Credential rotation is not supported by driver.")
	}
	desired, err := r.Desired(ctx)
	if err != nil {
		return err
	}
	if r.Driver.Describe().Credential {
		next, err := credential(ctx, r)
		if err != nil {
			return err
		}
		desired.Credential = &next
	}
	return rotator.RotateCredential(ctx, desired)
}

// activate lets the new credential count from now on, and its owner's name stand
// on the cluster: it is in that name that the cluster acts (spec/conductor.md §5.3).
func activate(ctx context.Context, r *conductor.Run) error {
	if !r.Driver.Describe().Credential {
		return nil
	}
	next, err := credential(ctx, r)
	if err != nil {
		return err
	}
	return r.Change(ctx, func(tx *postgres.Store, s *conductor.Subject) error {
		s.Cluster.UserID = r.Operation.UserID
		return certstore.ActivateCredential(ctx, tx.Secrets, r.Operation.ClusterID, next.Epoch)
	})
}

// revoke takes back what was replaced. That Keystone refuses it is no reason to
// say that the rotation failed: the row stays, and the deletion of the cluster
// tries again.
func revoke(ctx context.Context, r *conductor.Run) error {
	if !r.Driver.Describe().Credential {
		return nil
	}
	next, err := credential(ctx, r)
	if err != nil {
		return err
	}
	err = r.Secrets.RetireCredentials(ctx, r.Operation.ClusterID, next.Epoch, r.Revoke)
	if err != nil && !fault.Transient(err) {
		slog.WarnContext(ctx, "an old application credential stays in Keystone", "cluster", r.Operation.ClusterID, "err", err)
		return nil
	}
	return err
}

func credential(ctx context.Context, r *conductor.Run) (driver.Credential, error) {
	a, err := conductor.Arguments[magnum.RotateArguments](r.Operation)
	if err != nil {
		return driver.Credential{}, err
	}
	return r.Secrets.Credential(ctx, r.Operation.ClusterID, a.Epoch)
}
