// Package federationcreate is the function that takes magnum.conductor.federation.create:
// the driver brings the federation's members and properties about.
package federationcreate

import (
	"context"
	"net/http"

	"carafe/shared/driver"
	"carafe/shared/function"
	"carafe/shared/magnum"
)

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "federationcreate", Kind: function.Event, Build: build}
}

func build(_ context.Context, p *function.Platform) (http.Handler, error) {
	return p.Conductor.FederationHandler(magnum.FederationCreate, func(ctx context.Context, d driver.Federator, f magnum.Federation) error {
		return d.Federate(ctx, f)
	}), nil
}
