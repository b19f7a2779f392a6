// Package clustercreate is the function that takes magnum.conductor.cluster.create:
// it makes the cluster's authorities and hands the desired state to the driver.
package clustercreate

import (
	"context"
	"net/http"

	"carafe/shared/conductor"
	"carafe/shared/function"
	"carafe/shared/magnum"
)

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "clustercreate", Kind: function.Event, Build: build}
}

func build(_ context.Context, p *function.Platform) (http.Handler, error) {
	return p.Conductor.Handler(magnum.ClusterCreate,
		conductor.Step{Name: "certificates", Do: certificates},
		conductor.Apply(),
	), nil
}

// certificates makes what is missing: one attempt may have died between two of them.
func certificates(ctx context.Context, r *conductor.Run) error { return r.EnsureCertificates(ctx) }
