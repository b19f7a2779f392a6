package function

import (
	"context"

	"carafe/shared/driver"
	"carafe/shared/driver/simulated"
)

func openSimulated(p *Platform) (driver.Driver, error) {
	var config simulated.Config
	if err := ReadConfig(&config); err != nil {
		return nil, err
	}
	return simulated.New(config, p.DB, p.Now), nil
}

// HostSimulated makes the endpoint of the simulated driver's clusters, if the
// platform has that driver; nil: there is nothing to serve.
func HostSimulated(ctx context.Context, p *Platform) (*simulated.Endpoint, error) {
	for _, d := range p.Drivers.All() {
		if d, ok := d.(*simulated.Driver); ok {
			return d.Host(ctx, p.Secrets)
		}
	}
	return nil, nil
}
