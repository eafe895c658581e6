package main

import (
	"errors"
	"io/fs"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/gatewayfile"
	"github.com/stintdev/stint/cmd/stint/internal/server"
	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/internal/secret"
	"github.com/stintdev/stint/resilience/adaptive"
	"github.com/stintdev/stint/rule"
)

// config checks the flags and converts them. The caller adds the store, the
// rules and the logger.
func (f *serveFlags) config() (server.Config, error) {
	c := server.Config{
		EnvoyConfig: f.envoyConfig, EnvoyHeaders: f.envoyHeaderNames(), EnvoyCompat: f.envoyCompat,
		HTTP: address(f.http), GRPC: address(f.grpc), RESP: address(f.resp), Admin: address(f.admin), Gateway: address(f.gateway),
		TLS:           server.TLSFiles{Cert: f.tlsCert, Key: f.tlsKey, ClientCA: f.clientCA},
		HTTPTokenFile: f.httpTokenFile, EnvoyWithoutToken: f.envoyWithoutToken,
		AdminTokenFile: f.adminTokenFile, AdminTokens: f.adminTokensFile, AdminHosts: f.adminHosts,
		Profiling: f.profiling, DrainDelay: f.drainDelay, GatewayMax: f.gatewayMax, CloseAfter: f.closeAfter,
		HotKeyRate: f.hotKeyRate, NativeHistograms: f.nativeHistograms,
		RefuseFor: f.refuseFor, ConnectionsPerAddress: f.perAddress,
	}
	f.envoy.apply(&c)
	for _, err := range []error{f.checkAddresses(), f.checkStores(), f.checkEnvoy(), f.checkRanges(), f.checkAdapt(), f.checkAddressBounds()} {
		if err != nil {
			return c, err
		}
	}
	c.GatewayAdapt = f.adaptAlgorithm()
	var err error
	if c.EnvoyConsistency, err = f.consistencyOfEnvoy(); err != nil {
		return c, err
	}
	if c.Upstreams, err = parseURLs(f.upstreams); err != nil {
		return c, err
	}
	if c.TrustedProxies, err = httplimit.ParsePrefixes(f.trusted...); err != nil {
		return c, usagef("trusted-proxies: %w", err)
	}
	encodings := map[string]rule.PathEncoding{"decode": rule.PathDecode, "keep": rule.PathKeep, "reject": rule.PathReject}
	var known bool
	if c.PathEncoding, known = encodings[f.pathEncoding]; !known {
		return c, usagef("path-encoding: %q is not known (use keep, decode or reject)", f.pathEncoding)
	}
	if err := f.readGateway(&c); err != nil {
		return c, err
	}
	if c.MostDenied, err = parseShare("impact-limit", f.impactLimit); err != nil {
		return c, err
	}
	c.NearLimit, err = parseShare("near-limit", f.nearLimit)
	return c, err
}

func address(flag string) string {
	if flag == off {
		return ""
	}
	return flag
}

// checkAddresses rejects empty addresses. An empty one usually comes from a
// variable that is not set, and would silently open no listener.
func (f *serveFlags) checkAddresses() error {
	for _, a := range []struct{ flag, address string }{
		{"http", f.http}, {"grpc", f.grpc}, {"admin", f.admin}, {"resp", f.resp}, {"gateway", f.gateway},
	} {
		if a.address == "" {
			return usagef("%s: is empty (write host:port or :port, or off)", a.flag)
		}
	}
	return nil
}

// checkEnvoy rejects settings of Envoy's rate limit service that would have no
// effect.
func (f *serveFlags) checkEnvoy() error {
	switch {
	case f.envoyCompat && f.envoyConfig == "":
		return usagef("envoy-compat: Envoy's rate limit service has no configuration (give --envoy-config DIR, or RUNTIME_ROOT)")
	case f.envoyHeaders && f.envoyConfig == "":
		return usagef("envoy-headers: Envoy's rate limit service has no configuration (give --envoy-config DIR)")
	case f.envoyConfig != "" && address(f.grpc) == "" && address(f.http) == "":
		return usagef("envoy-config: is served on --grpc and --http, which are both off (enable one of them)")
	}
	return nil
}

// consistencyOfEnvoy returns the consistency of Envoy's limits that name none.
func (f *serveFlags) consistencyOfEnvoy() (stint.Consistency, error) {
	for _, c := range []stint.Consistency{stint.Strict, stint.Leased, stint.Partitioned} {
		switch {
		case f.envoyConsistency != c.String():
		case c != stint.Strict && f.envoyConfig == "":
			return c, usagef("envoy-consistency: Envoy's rate limit service has no configuration (give --envoy-config DIR)")
		default:
			return c, nil
		}
	}
	return 0, usagef("envoy-consistency: %q is not known (use strict, leased or partitioned)", f.envoyConsistency)
}

// maxDrainDelay leaves requests in flight at least one second of the ten within
// which the server exits after SIGTERM.
const maxDrainDelay = 8 * time.Second

func (f *serveFlags) checkRanges() error {
	switch {
	case f.nodes < 0:
		return usagef("nodes: %d is below 0 (use 0 to count the nodes that announce themselves)", f.nodes)
	case f.storeDeadline <= 0:
		return usagef("store-deadline: %v is not above 0 (use a time such as 50ms)", f.storeDeadline)
	case f.storeSlow < 0:
		return usagef("store-slow: %v is below 0 (use a time such as 10ms, or 0 to disable)", f.storeSlow)
	case f.leaseTime != timeOff && (f.leaseTime < timeOrOff(10*time.Millisecond) || f.leaseTime > timeOrOff(10*time.Second)):
		return usagef("lease-time: %v is out of range (use 10ms to 10s, or off)", time.Duration(f.leaseTime))
	case f.storeClock != clockOfStore && f.storeClock != clockOfNode:
		return usagef("store-clock: %q is not a clock (use %s or %s)", f.storeClock, clockOfStore, clockOfNode)
	case f.clock != clockAuto && f.clock != clockKernel:
		return usagef("clock: %q is not a clock (use %s or %s)", f.clock, clockAuto, clockKernel)
	case f.hotKeyRate < 0:
		return usagef("hot-key-rate: %d is below 0 (use 0 to watch for no hot keys)", f.hotKeyRate)
	case f.maxKeys < 1:
		return usagef("max-keys: %d is below 1 (use 1 or more)", f.maxKeys)
	case f.maxCallerKeys < 0:
		return usagef("max-caller-keys: %d is below 0 (use 0 for half of --max-keys)", f.maxCallerKeys)
	case f.maxCallerBytes < 1:
		return usagef("max-caller-bytes: %d is below 1 (use 1 or more)", f.maxCallerBytes)
	case f.maxRequestIDBytes < 1:
		return usagef("max-request-id-bytes: %d is below 1 (use 1 or more)", f.maxRequestIDBytes)
	case f.drainDelay < 0 || f.drainDelay > maxDrainDelay:
		return usagef("drain-delay: %v is out of range (use 0s to %v)", f.drainDelay, maxDrainDelay)
	}
	return nil
}

// maxRefuseFor bounds how long the gateway refuses an address, which may be that of many
// clients.
const maxRefuseFor = time.Hour

// checkAddressBounds checks the bounds of the gateway's connections, and rejects those that
// would bound nothing.
func (f *serveFlags) checkAddressBounds() error {
	switch {
	case f.closeAfter < 0:
		return usagef("gateway-close-after: %d is below 0 (use 0 to disable)", f.closeAfter)
	case f.refuseFor < 0 || f.refuseFor > maxRefuseFor:
		return usagef("gateway-refuse-for: %v is out of range (use a time up to %v, or 0 to refuse none)", f.refuseFor, maxRefuseFor)
	case f.refuseFor > 0 && address(f.gateway) == "":
		return usagef("gateway-refuse-for: the gateway is off (give --gateway ADDR)")
	case f.refuseFor > 0 && f.closeAfter == 0:
		return usagef("gateway-refuse-for: denials are not counted (give --gateway-close-after a number above 0)")
	case f.perAddress < 0:
		return usagef("gateway-connections-per-address: %d is below 0 (use 0 for no bound)", f.perAddress)
	case f.perAddress > 0 && address(f.gateway) == "":
		return usagef("gateway-connections-per-address: the gateway is off (give --gateway ADDR)")
	}
	return nil
}

// checkAdapt rejects bounds that would bound nothing. The operator would rely on
// a bound that is not there.
func (f *serveFlags) checkAdapt() error {
	switch {
	case f.gatewayAdapt != off && f.gatewayAdapt != "aimd" && f.gatewayAdapt != "gradient":
		return usagef("gateway-adapt: %q is not known (use gradient, aimd or off)", f.gatewayAdapt)
	case f.gatewayMax < 1:
		return usagef("gateway-max: %d is below 1 (use 1 or more)", f.gatewayMax)
	case f.gatewaySlow < time.Millisecond:
		return usagef("gateway-slow: %v is below 1ms (use a latency that is too long, such as 1s)", f.gatewaySlow)
	case f.gatewayAdapt != off && address(f.gateway) == "":
		return usagef("gateway-adapt: the gateway is off (give --gateway ADDR)")
	case f.gatewayMax != defaultGatewayMax && f.gatewayAdapt == off:
		return usagef("gateway-max: load shedding is off (give --gateway-adapt gradient or aimd)")
	case f.gatewaySlow != defaultGatewaySlow && f.gatewayAdapt != "aimd":
		return usagef("gateway-slow: applies to aimd alone (give --gateway-adapt aimd)")
	}
	return nil
}

// adaptAlgorithm returns the algorithm that adjusts the gateway's limit on
// requests in flight, or nil for no limit.
func (f *serveFlags) adaptAlgorithm() adaptive.Algorithm {
	switch f.gatewayAdapt {
	case "aimd":
		return &adaptive.AIMD{Timeout: f.gatewaySlow}
	case "gradient":
		return &adaptive.Gradient{}
	}
	return nil
}

// readGateway reads the file of --gateway-config.
func (f *serveFlags) readGateway(c *server.Config) error {
	if f.gatewayConfig == "" {
		return nil
	}
	s, err := gatewayfile.Read(f.gatewayConfig, c.PathEncoding.Form)
	if _, unreadable := errors.AsType[*fs.PathError](err); unreadable {
		return usagef("gateway-config: %w", err)
	}
	if err != nil {
		return usagef("%w", err)
	}
	c.GatewayGroups, c.GatewayRoutes = s.Groups, s.Routes
	return nil
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

// redacted returns a URL without its password. It hides a URL that cannot be
// parsed.
func redacted(u *url.URL) string {
	if u == nil {
		return "…"
	}
	return u.Redacted()
}

// openSecret opens a file with a secret, which can be read again. It returns nil
// if path is empty.
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

// parseShare parses a share such as 5% or 0.05. It returns 0 for off.
func parseShare(flag, text string) (float64, error) {
	if text == off {
		return 0, nil
	}
	share, ok := shareOf(text)
	if !ok {
		return 0, usagef("%s: %.40q is not a share (write it as 5%% or 0.05, or off)", flag, text)
	}
	return share, nil
}

// shareOf parses a share above 0 and at most 1, such as 5% or 0.05.
func shareOf(text string) (share float64, ok bool) {
	number, percent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		share /= 100
	}
	return share, err == nil && share > 0 && share <= 1
}
