//go:build linux

package proxytest

import (
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/processtest"
	"github.com/stintdev/stint/internal/testserver"
)

// envoyDomain is the configuration in the comment of deploy/envoy/ratelimit.yaml, with
// small numbers and a descriptor for each route of testdata/envoy-ratelimit.yaml.
const envoyDomain = `
domain: shop
descriptors:
  - {key: remote_address, rate_limit: {unit: hour, requests_per_unit: 4}}
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: path, value: /login, descriptors: [{key: remote_address, rate_limit: {unit: hour, requests_per_unit: 1}}]}
  - {key: kind, value: cost, descriptors: [{key: remote_address, rate_limit: {unit: hour, requests_per_unit: 10}}]}
  - {key: kind, value: after, descriptors: [{key: remote_address, rate_limit: {unit: hour, requests_per_unit: 5}}]}
  - {key: kind, value: override, descriptors: [{key: remote_address, rate_limit: {unit: hour, requests_per_unit: 100}}]}
  - {key: kind, value: shadow, descriptors: [{key: remote_address, rate_limit: {unit: hour, requests_per_unit: 1}, shadow_mode: true}]}
  - {key: kind, value: metadata, descriptors: [{key: remote_address, rate_limit: {unit: hour, requests_per_unit: 1}}]}
  - {key: kind, value: wide, descriptors: [{key: remote_address, rate_limit: {unit: hour, requests_per_unit: 5}}]}
  - {key: kind, value: narrow, descriptors: [{key: remote_address, rate_limit: {unit: hour, requests_per_unit: 1}}]}
`

// newRateLimitSite starts an Envoy whose rate limit filter queries Stint.
func newRateLimitSite(t *testing.T, file string, how mode, replace []string, more ...string) *site {
	t.Helper()
	p := &proxy{
		name: "envoy-ratelimit", pinned: "envoy", files: []string{file}, own: append(replace, envoyOwn...),
		slow: []string{"timeout: 0.25s", "timeout: 20s", "timeout: 0.5s", "timeout: 20s"},
		args: envoyArgs(filepath.Base(file)), grpc: true,
	}
	p.find(t)
	stintAddr := testserver.FreeAddr(t)
	stint := serveDomain(t, stintAddr, more...)
	s := newSiteAt(t, p, how, stintAddr)
	s.stint = stint
	return s
}

func serveDomain(t *testing.T, stintAddr string, more ...string) *processtest.Process {
	t.Helper()
	domain := folder(t)
	write(t, filepath.Join(domain, "shop.yaml"), envoyDomain)
	return serve(t, stintAddr, append([]string{"--envoy-config", domain}, more...)...)
}

const (
	rateLimitFile = "envoy/ratelimit.yaml"
	featuresFile  = "../cmd/stint/internal/proxytest/testdata/envoy-ratelimit.yaml"
)

// compat has the flags of both ways of counting, which decide one limit alike.
var compat = map[string][]string{"as Stint counts": nil, "as Envoy's service counts": {"--envoy-compat"}}

// statuses sends n requests and returns their statuses in one text.
func (c *client) statuses(n int, path string, header ...string) string {
	c.t.Helper()
	var all []string
	for range n {
		got := c.get(path, header...)
		all = append(all, strconv.Itoa(got.status))
	}
	return strings.Join(all, " ")
}

func wantStatuses(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("statuses %s, want %s", got, want)
	}
}

func TestEnvoyRateLimitFile(t *testing.T) {
	t.Parallel()
	for name, flags := range compat {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRateLimitSite(t, rateLimitFile, patient, nil, flags...)
			c := s.client(t)
			wantStatuses(t, c.statuses(5, "/x?a=1"), "200 200 200 200 429")
			wantStatuses(t, c.statuses(1, "/y", "X-Forwarded-For", "203.0.113.7"), "429")

			login := s.client(t)
			wantStatuses(t, login.statuses(2, "/login?q=1"), "200 429")
			wantStatuses(t, login.statuses(1, "//login"), "429") // Envoy merges the slashes

			one, other := s.client(t), s.client(t)
			wantStatuses(t, one.statuses(2, "/z", "X-User", "ann"), "200 200")
			wantStatuses(t, other.statuses(1, "/z", "X-User", "ann"), "429")
			wantStatuses(t, s.client(t).statuses(1, "/z", "X-User", "ann", "X-User", "eve"), "429")
			wantStatuses(t, s.client(t).statuses(1, "/z", "X-User", "eve", "X-User", "ann"), "200") // docs/envoy.md says so
			got := other.get("/z", "X-User", "bob")
			wantHeader(t, &got, "X-RateLimit-Limit", "2, 4;w=3600, 2;w=3600")
			wantHeader(t, &got, "X-RateLimit-Remaining", "1")
		})
	}
}

func TestEnvoyRateLimitFeatures(t *testing.T) {
	t.Parallel()
	for name, flags := range compat {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRateLimitSite(t, featuresFile, patient, nil, flags...)
			t.Run("a header", func(t *testing.T) {
				c := s.client(t)
				wantStatuses(t, c.statuses(3, "/header", "X-User", "ann"), "200 200 429")
				wantStatuses(t, c.statuses(4, "/header"), "200 200 200 200")
			})
			t.Run("hits_addend and is_negative_hits", func(t *testing.T) {
				c := s.client(t)
				wantStatuses(t, c.statuses(1, "/cost", "X-Cost", "8"), "200")
				wantStatuses(t, c.statuses(1, "/refund"), "200")
				wantStatuses(t, c.statuses(1, "/cost", "X-Cost", "4"), "200")
				wantStatuses(t, c.statuses(1, "/cost", "X-Cost", "1"), "429")
			})
			t.Run("apply_on_stream_done", func(t *testing.T) {
				c := s.client(t)
				first := c.get("/after") // peeks, and is charged after it has ended
				wantHeader(t, &first, "X-RateLimit-Remaining", "5")
				c.await("/after", func(got *reply) bool { return got.header.Get("X-RateLimit-Remaining") != "5" })
			})
			t.Run("a limit of the request", func(t *testing.T) {
				wantStatuses(t, s.client(t).statuses(3, "/override"), "200 200 429")
			})
			t.Run("shadow mode", func(t *testing.T) {
				wantStatuses(t, s.client(t).statuses(3, "/shadow"), "200 200 200")
			})
			t.Run("two descriptors", func(t *testing.T) {
				c := s.client(t)
				wantStatuses(t, c.statuses(3, "/both"), "200 429 429")
			})
		})
	}
}

func TestEnvoyRateLimitMetadata(t *testing.T) {
	t.Setenv("RESPONSE_DYNAMIC_METADATA", "true")
	s := newRateLimitSite(t, featuresFile, patient, nil, "--envoy-compat")
	got := s.client(t).get("/metadata")
	if got.header.Get("X-Domain") != "shop" {
		t.Errorf("got %s", &got)
	}
}

// await repeats a request until the reply is as wanted.
func (c *client) await(path string, wanted func(*reply) bool) {
	c.t.Helper()
	for end := time.Now().Add(processtest.Patience); ; <-time.After(20 * time.Millisecond) {
		got := c.get(path)
		if wanted(&got) {
			return
		}
		if time.Now().After(end) {
			c.t.Fatal(got.String())
		}
	}
}

// TestEnvoyRateLimitWithoutStint kills, freezes and restarts Stint behind Envoy.
// Meanwhile failure_mode_deny decides whether requests pass; they are counted again
// when Stint is back.
func TestEnvoyRateLimitWithoutStint(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for time-outs")
	}
	for name, c := range map[string]struct {
		replace []string
		status  int
	}{
		"open":   {nil, http.StatusOK},
		"closed": {[]string{"failure_mode_deny: false", "failure_mode_deny: true"}, http.StatusInternalServerError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRateLimitSite(t, rateLimitFile, failsOpen, c.replace)
			client := s.client(t)
			counted := func(got *reply) bool { return got.header.Get("X-RateLimit-Limit") != "" }
			undecided := func() {
				for range 3 {
					if got := client.get("/z"); got.status != c.status || counted(&got) {
						t.Errorf("got %s", &got)
					}
				}
			}
			client.await("/z", counted)
			s.stint.Kill()
			undecided()
			s.stint = serveDomain(t, s.stintAddr)
			client.await("/z", counted)
			s.stint.Freeze()
			undecided()
			s.stint.Thaw()
			client.await("/z", counted)
		})
	}
}

// twoEndpoints makes Envoy check the health of two Stints. The second one is at port
// SECOND.
const (
	oneEndpoint  = "endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 8081}}}}]}]"
	twoEndpoints = "endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 8081}}}}," +
		" {endpoint: {address: {socket_address: {address: " + grpcHost + ", port_value: SECOND}}}}]}]"
	healthChecks = "      health_checks: [{timeout: 1s, interval: 0.1s, no_traffic_interval: 0.1s, unhealthy_threshold: 1, healthy_threshold: 1, grpc_health_check: {service_name: ratelimit}}]\n"
)

// TestEnvoyWhileOneOfTwoStintsDrains ends one of two Stints as a deployment does.
// Envoy stops using it before it exits, so every request is decided.
func TestEnvoyWhileOneOfTwoStintsDrains(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for a drain")
	}
	for name, start := range map[string]func(t *testing.T, replace []string) *site{
		"rate limit filter": func(t *testing.T, replace []string) *site {
			t.Helper()
			return newRateLimitSite(t, rateLimitFile, failsOpen, replace)
		},
		"authorization": func(t *testing.T, replace []string) *site {
			t.Helper()
			p := *proxyNamed(t, "envoy-grpc")
			p.own = slices.Concat(replace, p.own)
			return newSite(t, &p, failsOpen)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			secondAddr := testserver.FreeAddr(t)
			second := serveDomain(t, secondAddr)
			s := start(t, []string{
				"    - name: stint\n", "    - name: stint\n" + healthChecks,
				oneEndpoint, strings.ReplaceAll(twoEndpoints, "SECOND", port(secondAddr)),
				"timeout: 0.5s", "timeout: 5s", // a busy machine must not count as drained
			})
			s.client(t).wantDecidedWhile(func() error { return second.Signal(syscall.SIGTERM) }, second.Exited())
		})
	}
}

// wantDecidedWhile sends requests from before the call of stop until after the process
// has exited, and checks that each was decided.
func (c *client) wantDecidedWhile(stop func() error, stopped <-chan struct{}) {
	c.t.Helper()
	decided := func() bool {
		got := c.get("/open")
		return got.header.Get("X-RateLimit-Limit") != ""
	}
	c.await("/open", func(got *reply) bool { return got.header.Get("X-RateLimit-Limit") != "" })
	if err := stop(); err != nil {
		c.t.Fatal(err)
	}
	sent, missed := 0, 0
	for over := false; !over || sent < 100; sent++ {
		if !decided() {
			missed++
		}
		select {
		case <-stopped:
			over = true
		default:
		}
	}
	if missed > 0 {
		c.t.Errorf("%d of %d requests were not decided", missed, sent)
	}
}
