// Package clusterresize is the function that takes magnum.conductor.cluster.resize:
// a node group gets another size; named nodes go.
package clusterresize

import (
	"context"
	"net/http"

	"carafe/shared/conductor"
	"carafe/shared/function"
	"carafe/shared/magnum"
)

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "clusterresize", Kind: function.Event, Build: build}
}

func build(_ context.Context, p *function.Platform) (http.Handler, error) {
	return p.Conductor.Handler(magnum.ClusterResize, conductor.Apply()), nil
}
