package main

import (
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/server"
	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/internal/secret"
	"github.com/stintdev/stint/resilience/adaptive"
)

// logWriter is where log lines go.
type logWriter = io.Writer

// maxDrainDelay leaves the requests in flight a second of the ten that
// SIGTERM allows.
const maxDrainDelay = 8 * time.Second

// config translates the flags. The store, the rules and the logger are for the
// caller.
func (f *serveFlags) config() (server.Config, error) {
	c := server.Config{
		EnvoyConfig: f.envoyConfig, EnvoyHeaders: f.envoyHeaderNames(), EnvoyCompat: f.envoyCompat,
		HTTP: address(f.http), GRPC: address(f.grpc), RESP: address(f.resp), Admin: address(f.admin), Gateway: address(f.gateway),
		TLS:           server.TLSFiles{Cert: f.tlsCert, Key: f.tlsKey, ClientCA: f.clientCA},
		HTTPTokenFile: f.httpTokenFile, EnvoyWithoutToken: f.envoyWithoutToken,
		AdminTokenFile: f.adminTokenFile, AdminTokens: f.adminTokensFile,
		Profiling: f.profiling, DrainDelay: f.drainDelay, GatewayMax: f.gatewayMax, CloseAfter: f.closeAfter,
	}
	f.envoy.apply(&c)
	for _, check := range []error{f.named(), f.served(), f.bounds()} {
		if check != nil {
			return c, check
		}
	}
	var err error
	if c.GatewayAdapt, err = f.adapt(); err != nil {
		return c, err
	}
	if c.Upstreams, err = parseURLs(f.upstreams); err != nil {
		return c, err
	}
	if c.TrustedProxies, err = httplimit.ParsePrefixes(f.trusted...); err != nil {
		return c, usagef("trusted-proxies: %w", err)
	}
	if c.PathEncoding, err = parsePathEncoding(f.pathEncoding); err != nil {
		return c, err
	}
	if c.MostDenied, err = parseShare("impact-limit", f.impactLimit); err != nil {
		return c, err
	}
	return c, nil
}

func address(flag string) string {
	if flag == off {
		return ""
	}
	return flag
}

// named refuses an address of nothing, which would open no listener: it is
// more likely a variable that was not set.
func (f *serveFlags) named() error {
	for _, a := range []struct{ flag, address string }{
		{"http", f.http}, {"grpc", f.grpc}, {"admin", f.admin}, {"resp", f.resp}, {"gateway", f.gateway},
	} {
		if a.address == "" {
			return usagef("%s: is empty (write host:port or :port, or off)", a.flag)
		}
	}
	return nil
}

// served refuses what a later version will serve, rather than to start
// without it.
func (f *serveFlags) served() error {
	switch {
	case f.envoyCompat && f.envoyConfig == "":
		return usagef("envoy-compat: is for Envoy's rate limit service, which has no configuration (give --envoy-config DIR, or RUNTIME_ROOT)")
	case f.envoyHeaders && f.envoyConfig == "":
		return usagef("envoy-headers: is for Envoy's rate limit service, which has no configuration (give --envoy-config DIR)")
	case f.envoyConfig != "" && address(f.grpc) == "" && address(f.http) == "":
		return usagef("envoy-config: is served on --grpc and --http, which are both off (give one of them)")
	}
	return nil
}

func (f *serveFlags) bounds() error {
	switch {
	case f.nodes < 0:
		return usagef("nodes: %d is below 0 (use 0 to count those that are there)", f.nodes)
	case f.storeDeadline <= 0:
		return usagef("store-deadline: %v is not above 0 (a check must have time to ask, such as 50ms)", f.storeDeadline)
	case f.storeSlow < 0:
		return usagef("store-slow: %v is below 0 (use a time such as 10ms, or 0 for never)", f.storeSlow)
	case f.leaseTime < 10*time.Millisecond || f.leaseTime > 10*time.Second:
		return usagef("lease-time: %v is out of range (use 10ms to 10s)", f.leaseTime)
	case f.storeClock != clockOfStore && f.storeClock != clockOfNode:
		return usagef("store-clock: %q is not a clock (use %s or %s)", f.storeClock, clockOfStore, clockOfNode)
	case f.closeAfter < 0:
		return usagef("gateway-close-after: %d is below 0 (use 0 for never)", f.closeAfter)
	case f.maxKeys < 1:
		return usagef("max-keys: %d is below 1", f.maxKeys)
	case f.maxCallerKeys < 0:
		return usagef("max-caller-keys: %d is below 0 (use 0 for half of --max-keys)", f.maxCallerKeys)
	case f.maxCallerBytes < 1:
		return usagef("max-caller-bytes: %d is below 1", f.maxCallerBytes)
	case f.drainDelay < 0 || f.drainDelay > maxDrainDelay:
		return usagef("drain-delay: %v is out of range (use 0s to %v)", f.drainDelay, maxDrainDelay)
	}
	return nil
}

func parsePathEncoding(text string) (server.PathEncoding, error) {
	switch text {
	case "decode":
		return server.PathDecode, nil
	case "keep":
		return server.PathKeep, nil
	case "reject":
		return server.PathReject, nil
	}
	return 0, usagef("path-encoding: %q is not known (use keep, decode or reject)", text)
}

func parseURLs(texts []string) (urls []*url.URL, err error) {
	for _, text := range texts {
		u, err := url.Parse(strings.TrimSpace(text))
		if err != nil || u.Host == "" {
			return nil, usagef("upstream: %q is not a URL (write it as http://host:port)", redacted(u))
		}
		urls = append(urls, u)
	}
	return urls, nil
}

// redacted is a URL that may be shown. One that cannot be read is not shown.
func redacted(u *url.URL) string {
	if u == nil {
		return "…"
	}
	return u.Redacted()
}

// readToken returns the secret that a file holds now; "" when no file is named.
func readToken(flag, path string) (string, error) {
	text, err := openSecret(flag, "token", path)
	return text.Value(), err
}

// openSecret reads a file with a secret, which can be read again; nil when no
// file is named.
func openSecret(flag, what, path string) (*secret.Text, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // there is no secret
	}
	text, err := secret.OpenText(flag, what, path)
	if err != nil {
		return nil, usagef("%w", err)
	}
	return text, nil
}

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

// parseShare reads a share such as 5% or 0.05; off is 0.
func parseShare(flag, text string) (float64, error) {
	if text == off {
		return 0, nil
	}
	number, percent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		share /= 100
	}
	if err != nil || !(share > 0 && share <= 1) {
		return 0, usagef("%s: %.40q is no share (write it as 5%% or 0.05, or off)", flag, text)
	}
	return share, nil
}
