// Package nodegroupcreate is the function that takes magnum.conductor.nodegroup.create:
// a new node group is brought about.
package nodegroupcreate

import (
	"context"
	"net/http"

	"carafe/shared/conductor"
	"carafe/shared/function"
	"carafe/shared/magnum"
)

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "nodegroupcreate", Kind: function.Event, Build: build}
}

func build(_ context.Context, p *function.Platform) (http.Handler, error) {
	return p.Conductor.Handler(magnum.NodeGroupCreate, conductor.Apply()), nil
}
