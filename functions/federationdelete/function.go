// Package federationdelete is the function that takes magnum.conductor.federation.delete:
// the driver dissolves the federation, then its row goes.
package federationdelete

import (
	"context"
	"net/http"

	"carafe/shared/driver"
	"carafe/shared/function"
	"carafe/shared/magnum"
)

// Function is what carafe hosts.
func Function() function.Function {
	return function.Function{Name: "federationdelete", Kind: function.Event, Build: build}
}

func build(_ context.Context, p *function.Platform) (http.Handler, error) {
	return p.Conductor.FederationHandler(magnum.FederationDelete, func(ctx context.Context, d driver.Federator, f magnum.Federation) error {
		return d.Dissolve(ctx, f)
	}), nil
}
