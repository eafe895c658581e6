package main

import (
	"time"

	"github.com/stintdev/stint/resilience/adaptive"
)

// adapt returns what moves the gateway's limit, or nil.
func (f *serveFlags) adapt() (adaptive.Algorithm, error) {
	if err := f.checkAdapt(); err != nil {
		return nil, err
	}
	switch f.gatewayAdapt {
	case off:
		return nil, nil //nolint:nilnil // no limit
	case "aimd":
		return &adaptive.AIMD{Timeout: f.gatewaySlow}, nil
	case "gradient":
		return &adaptive.Gradient{}, nil
	}
	return nil, usagef("gateway-adapt: %q is not known (use gradient, aimd or off)", f.gatewayAdapt)
}

// checkAdapt refuses numbers that would bound nothing, rather than to start
// without the bound that somebody counts on.
func (f *serveFlags) checkAdapt() error {
	switch {
	case f.gatewayMax < 1:
		return usagef("gateway-max: %d is below 1", f.gatewayMax)
	case f.gatewaySlow < time.Millisecond:
		return usagef("gateway-slow: %v is below 1ms (use what is too long for a request, such as 1s)", f.gatewaySlow)
	case f.gatewayAdapt != off && address(f.gateway) == "":
		return usagef("gateway-adapt: is for the gateway, which is off (give --gateway ADDR)")
	case f.gatewayMax != defaultGatewayMax && f.gatewayAdapt == off:
		return usagef("gateway-max: bounds what the gateway sheds by, which is off (give --gateway-adapt gradient or aimd)")
	case f.gatewaySlow != defaultGatewaySlow && f.gatewayAdapt != "aimd":
		return usagef("gateway-slow: is for aimd (give --gateway-adapt aimd)")
	}
	return nil
}
