package main

import (
	"time"

	"github.com/stintdev/stint/resilience/adapt"
)

// adapt returns what moves the gateway's limit, or nil.
func (f *serveFlags) adapt() (adapt.Algorithm, error) {
	if f.gatewayMax < 1 {
		return nil, usagef("gateway-max: %d is below 1", f.gatewayMax)
	}
	if f.gatewaySlow < time.Millisecond {
		return nil, usagef("gateway-slow: %v is below 1ms (use what is too long for a request, such as 1s)", f.gatewaySlow)
	}
	if f.gatewayAdapt != off && address(f.gateway) == "" {
		return nil, usagef("gateway-adapt: is for the gateway, which is off (give --gateway ADDR)")
	}
	switch f.gatewayAdapt {
	case off:
		return nil, nil //nolint:nilnil // no limit
	case "aimd":
		return &adapt.AIMD{Timeout: f.gatewaySlow}, nil
	case "gradient":
		return &adapt.Gradient{}, nil
	}
	return nil, usagef("gateway-adapt: %q is not known (use gradient, aimd or off)", f.gatewayAdapt)
}
