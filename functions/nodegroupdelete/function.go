// Package nodegroupdelete is the function that takes magnum.conductor.nodegroup.delete:
// a node group goes. Its row is removed when the driver has seen it gone.
package nodegroupdelete

import (
	"context"
	"net/http"

	"carafe/shared/conductor"
	"carafe/shared/function"
	"carafe/shared/magnum"
)

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "nodegroupdelete", Kind: function.Event, Build: build}
}

func build(_ context.Context, p *function.Platform) (http.Handler, error) {
	return p.Conductor.Handler(magnum.NodeGroupDelete, conductor.Apply()), nil
}
