package function

import (
	"context"
	"fmt"

	"carafe/shared/driver"
	"carafe/shared/driver/capi"
	"carafe/shared/telemetry"
)

// DriversConfig says which drivers a process has.
type DriversConfig struct {
	// Names are simulated and capi; empty means simulated with noauth, else capi.
	Names     []string `envconfig:"CARAFE_DRIVERS"`
	Selection driver.Selection
}

// open makes the drivers.
func (c DriversConfig) open(ctx context.Context, env *Env, p *Platform, t *telemetry.Telemetry) (*driver.Registry, error) {
	names := c.Names
	if len(names) == 0 {
		if names = []string{"capi"}; env.AuthStrategy == "noauth" {
			names = []string{"simulated"}
		}
	}
	var drivers []driver.Driver
	for _, name := range names {
		switch name {
		case "simulated":
			d, err := openSimulated(p)
			if err != nil {
				return nil, err
			}
			drivers = append(drivers, d)
		case "capi":
			var config capi.Config
			if err := ReadConfig(&config); err != nil {
				return nil, err
			}
			d, err := capi.New(ctx, config, t)
			if err != nil {
				return nil, fmt.Errorf("driver capi: %w", err)
			}
			drivers = append(drivers, d)
		default:
			return nil, fmt.Errorf("CARAFE_DRIVERS names %q: there are simulated and capi", name)
		}
	}
	return driver.NewRegistry(c.Selection, drivers...), nil
}
