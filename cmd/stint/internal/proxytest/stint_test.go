//go:build linux

// Package proxytest tests forward auth end to end: the real program, real proxies with
// the configurations of deploy/, an application behind them, and clients.
//
// It contains only tests. It needs Linux, where clients can use all addresses of
// 127.0.0.0/8. A proxy that is not installed is skipped;
// scripts/install-test-servers installs the proxies.
package proxytest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stintdev/stint/cmd/stint/internal/processtest"
)

// program is the path of the stint program under test.
var program string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "proxytest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "stint")
	if out, err := exec.Command("go", "build", "-o", program, "../..").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// rules has a limit for each property that a test checks. Requests that match no rule
// are not counted.
const rules = `
rules:
  - {id: by-ip, match: {path: /ip}, by: [ip], limit: 2, window: 1h}
  - {id: by-key, match: {path: /key}, by: [api_key], limit: 2, window: 1h}
  - {id: posts, match: {path: "/a b/é", methods: [POST]}, by: [ip], limit: 1, window: 1h}
  - {id: brews, match: {path: /pot, methods: [BREW, PATCH, HEAD]}, by: [ip, method], limit: 1, window: 1h}
  - {id: shop, match: {path: /host, host: shop.example}, by: [ip], limit: 1, window: 1h}
  - {id: gold, match: {path: /plan, headers: {x-plan: gold}}, by: [ip], limit: 1, window: 1h}
  - {id: dialect, match: {path: /dialect}, by: [ip], limit: 1, window: 1h, headers: ietf-03}
  - {id: sockets, match: {path: /socket}, by: [ip], limit: 1, window: 1h}
  - {id: events, match: {path: /events}, by: [ip], limit: 1, window: 1h}
  - {id: soon, match: {path: /soon}, by: [ip], limit: 1, window: 3s}
  - {id: closed, match: {path: /closed}, by: [ip], limit: 1000, window: 1h, on_store_failure: closed}
  - {id: many, match: {path: /many}, by: [ip], limits: [MANY]}
  - {id: more, match: {path: /many}, by: [ip], limits: [MANY]}
  - {id: punished, match: {path: /punished}, by: [ip], limit: 1/s, penalty: {after: 1, window: 1m, cool_down: 1m}}
  - {id: open, match: {path: /open}, by: [ip], limit: 1000, window: 1h, on_store_failure: open}
blacklist: [revoked]
`

// many is the number of limits of each of two rules, whose names make the answer many
// kilobytes long.
const many = 30

func limitsOf(n int) string {
	limits := make([]string, n)
	for i := range limits {
		limits[i] = fmt.Sprintf("{name: %s-%d, limit: 1, window: 1h}", strings.Repeat("x", 60), i)
	}
	return strings.Join(limits, ", ")
}

// grpcHost is the address of Stint's gRPC, with the same port as its HTTP.
const grpcHost = "127.0.0.2"

// serve starts Stint at addr. It trusts the proxies, which connect from 127.0.0.1;
// clients use other loopback addresses.
func serve(t *testing.T, addr string, more ...string) *processtest.Process {
	t.Helper()
	return serveRules(t, addr, strings.ReplaceAll(rules, "MANY", limitsOf(many)), more...)
}

// serveRules is serve with other rules.
func serveRules(t *testing.T, addr, rules string, more ...string) *processtest.Process {
	t.Helper()
	file := filepath.Join(folder(t), "rules.yaml")
	write(t, file, rules)
	args := []string{"serve", "--rules", file, "--http", addr, "--grpc", grpcHost + ":" + port(addr), "--admin", "off", "--trusted-proxies", "127.0.0.1"}
	return processtest.Start(t, addr, program, append(args, more...)...)
}
