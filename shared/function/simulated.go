package function

import (
	"carafe/shared/driver"
	"carafe/shared/driver/simulated"
)

func openSimulated(p *Platform) (driver.Driver, error) {
	return simulated.New(p.DB.Simulations, func(string) string { return "https://172.24.4.3:6443" }, p.Now), nil
}
