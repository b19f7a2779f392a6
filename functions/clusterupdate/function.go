// Package clusterupdate is the function that takes magnum.conductor.cluster.update:
// a PATCH of node_count, which is a resize of the default worker group (PB-21).
package clusterupdate

import (
	"context"
	"net/http"

	"carafe/shared/conductor"
	"carafe/shared/function"
	"carafe/shared/magnum"
)

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "clusterupdate", Kind: function.Event, Build: build}
}

func build(_ context.Context, p *function.Platform) (http.Handler, error) {
	return p.Conductor.Handler(magnum.ClusterUpdate, conductor.Apply()), nil
}
