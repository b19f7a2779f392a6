package function

import (
	"carafe/shared/driver"
	"carafe/shared/driver/simulated"
)

func openSimulated(p *Platform) (driver.Driver, error) {
	var config simulated.Config
	if err := ReadConfig(&config); err != nil {
		return nil, err
	}
	return simulated.New(config, p.DB.Simulations, func(string) string { return "https://172.24.4.3:6443" }, p.Now), nil
}
