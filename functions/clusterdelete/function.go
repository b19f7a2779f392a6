// Package clusterdelete is the function that takes magnum.conductor.cluster.delete.
// First the driver removes what it built; when it is seen gone, the secrets go,
// and the rows last, so that a crash at any point finds what is left to do.
package clusterdelete

import (
	"context"
	"log/slog"
	"net/http"

	"carafe/shared/conductor"
	"carafe/shared/driver"
	"carafe/shared/fault"
	"carafe/shared/function"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
)

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "clusterdelete", Kind: function.Event, Build: build}
}

func build(_ context.Context, p *function.Platform) (http.Handler, error) {
	return p.Conductor.Handler(magnum.ClusterDelete,
		conductor.Step{Name: "driver", Do: begin, Await: true},
		conductor.Step{Name: "secrets", Do: secrets},
		conductor.Step{Name: "records", Do: records},
	), nil
}

// begin asks the driver to remove everything.
func begin(ctx context.Context, r *conductor.Run) error {
	arguments, err := conductor.Arguments[magnum.DeleteArguments](r.Operation)
	if err != nil {
		return err
	}
	if arguments.Force {
		return forget(ctx, r)
	}
	return r.Driver.Delete(ctx, r.Subject.Ref())
}

// patience is how many times a driver is asked to let go: for about two minutes.
const patience = 8

// forget does not wait for a cloud that is gone: an admin has forced the removal of
// the records. A driver that holds something itself is given the time to let go.
func forget(ctx context.Context, r *conductor.Run) error {
	var left []string
	gone, err := true, error(nil)
	if f, ok := r.Driver.(driver.Forgetter); ok {
		left, gone, err = f.Forget(ctx, r.Subject.Ref())
	} else {
		err = r.Driver.Delete(ctx, r.Subject.Ref())
	}
	if len(left) > 0 {
		slog.WarnContext(ctx, "left in the cloud", "cluster", r.Operation.ClusterID, "left", left)
	}
	if err == nil && !gone && r.Operation.Attempt < patience {
		return fault.New(fault.Unavailable, "The driver lets go of what it holds of the cluster.")
	}
	if err != nil || !gone {
		slog.WarnContext(ctx, "the records go without the driver", "cluster", r.Operation.ClusterID, "err", err)
	}
	r.DoNotAwait()
	return nil
}

// secrets deletes every certificate of every epoch and gives the application
// credential back (PB-36, PB-58).
func secrets(ctx context.Context, r *conductor.Run) error {
	if err := r.Secrets.DeleteAll(ctx, r.Operation.ClusterID); err != nil {
		return err
	}
	return r.Secrets.DeleteCredentials(ctx, r.Operation.ClusterID, r.Revoke)
}

// records removes the rows, says so, and ends the operation, at once.
func records(ctx context.Context, r *conductor.Run) error {
	return r.Finish(ctx, func(tx *postgres.Store) error {
		return tx.Clusters.Delete(ctx, r.Operation.ClusterID)
	})
}
