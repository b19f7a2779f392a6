// Package clusterupgrade is the function that takes magnum.conductor.cluster.upgrade:
// the cluster moves to another template. The rows have it already; a driver that
// refuses puts the old one back.
package clusterupgrade

import (
	"context"
	"net/http"

	"carafe/shared/conductor"
	"carafe/shared/function"
	"carafe/shared/magnum"
)

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "clusterupgrade", Kind: function.Event, Build: build}
}

func build(_ context.Context, p *function.Platform) (http.Handler, error) {
	return p.Conductor.Handler(magnum.ClusterUpgrade, conductor.Apply()), nil
}
