package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The Envoy files whose filters are compared. The first one is the frame of all
// configurations: one listener, the descriptors of a request, and the clusters.
const (
	envoyFrame   = "../deploy/envoy/ratelimit.yaml"
	envoyAuthz   = "../deploy/envoy/ext-authz-grpc.yaml"
	filtersBegin = "                http_filters:\n"
	filtersEnd   = "                  - name: envoy.filters.http.router\n"
)

// envoyLocal is Envoy's own limit: one bucket for all requests, as large as Envoy allows.
const envoyLocal = `                  - name: envoy.filters.http.local_ratelimit
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
                      stat_prefix: local
                      token_bucket: {max_tokens: 1000000000, tokens_per_fill: 1000000000, fill_interval: 1s}
                      filter_enabled: {default_value: {numerator: 100, denominator: HUNDRED}}
                      filter_enforced: {default_value: {numerator: 100, denominator: HUNDRED}}
                      enable_x_ratelimit_headers: DRAFT_VERSION_03
`

// envoyLimit is one way to limit requests.
type envoyLimit struct {
	name   string
	filter func() (string, error) // returns its YAML text; nil: no limit
}

// envoyLimits returns all ways, the one without a limit first.
func envoyLimits() []envoyLimit {
	return []envoyLimit{
		{"no limit", nil},
		{"Stint, rate limit filter", func() (string, error) { return deployedFilter(envoyFrame) }},
		{"Stint, ext_authz over gRPC", func() (string, error) { return deployedFilter(envoyAuthz) }},
		{"Envoy's local rate limit", func() (string, error) { return envoyLocal, nil }},
	}
}

// deployedFilter returns the filter in a file of deploy/envoy.
func deployedFilter(file string) (string, error) {
	_, filter, _, err := envoyParts(file)
	return filter, err
}

// envoyParts splits a file around its filter, which stands before the router.
func envoyParts(file string) (before, filter, after string, err error) {
	text, err := os.ReadFile(file) //nolint:gosec // one of the files above
	if err != nil {
		return "", "", "", err
	}
	head, rest, begins := strings.Cut(string(text), filtersBegin)
	filter, tail, ends := strings.Cut(rest, filtersEnd)
	if !begins || !ends {
		return "", "", "", fmt.Errorf("%s: no filter stands before envoy.filters.http.router", file)
	}
	return head + filtersBegin, filter, filtersEnd + tail, nil
}

// envoyTargets holds the servers that Envoy connects to.
type envoyTargets struct {
	application, stint string // their addresses
	processes          []int
}

// envoyBench replaces the domain, and timeouts that a busy machine would miss: after a
// timeout, Envoy lets requests pass without a decision.
var envoyBench = strings.NewReplacer("domain: shop", "domain: bench", " timeout: 0.5s", " timeout: 10s", "connect_timeout: 0.25s", "connect_timeout: 10s")

// config returns Envoy's configuration. All ways share one frame, so that they differ
// only in their filter.
func (l envoyLimit) config(port string, at envoyTargets) (string, error) {
	before, _, after, err := envoyParts(envoyFrame)
	if err != nil {
		return "", err
	}
	filter := ""
	if l.filter != nil {
		if filter, err = l.filter(); err != nil {
			return "", err
		}
	}
	text := envoyBench.Replace(before + filter + after)
	for _, of := range []struct{ found, want string }{
		{"0.0.0.0, port_value: 80}", "127.0.0.1, port_value: " + port + "}"},
		{"port_value: 8081}", "port_value: " + portOf(at.stint) + "}"},
		{"port_value: 3000}", "port_value: " + portOf(at.application) + "}"},
	} {
		if strings.Count(text, of.found) != 1 {
			return "", fmt.Errorf("%s: %q does not stand there once", envoyFrame, of.found)
		}
		text = strings.Replace(text, of.found, of.want, 1)
	}
	return text, nil
}

func portOf(addr string) string {
	return addr[strings.LastIndexByte(addr, ':')+1:]
}

// startEnvoy starts an Envoy that limits in one way.
func startEnvoy(ctx context.Context, program string, l envoyLimit, at envoyTargets) (*serverProcess, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	config, err := l.config(port, at)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "stint-bench-")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "envoy.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s := &serverProcess{dir: dir, ready: "starting main dispatch loop", command: exec.CommandContext(ctx, program,
		"-c", file, "--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warn", "--component-log-level", "main:info")}
	if err := s.start(); err != nil {
		return nil, err
	}
	s.addrs["http"] = net.JoinHostPort("127.0.0.1", port)
	return s, nil
}
