// Package nodegroupupdate is the function that takes magnum.conductor.nodegroup.update:
// bounds, labels and taints of a node group change.
package nodegroupupdate

import (
	"context"
	"net/http"

	"carafe/shared/conductor"
	"carafe/shared/function"
	"carafe/shared/magnum"
)

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "nodegroupupdate", Kind: function.Event, Build: build}
}

func build(_ context.Context, p *function.Platform) (http.Handler, error) {
	return p.Conductor.Handler(magnum.NodeGroupUpdate, conductor.Apply()), nil
}
