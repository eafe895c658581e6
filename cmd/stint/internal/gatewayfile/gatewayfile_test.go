package gatewayfile

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/gateway"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/bulkhead"
	"github.com/stintdev/stint/rule"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const whole = `
upstreams:
  api:
    servers: [http://10.0.0.1:9000, {url: http://10.0.0.2:9000/base, weight: 3}]
    host: upstream
    health: {path: /healthz, interval: 500ms}
  web: http://10.0.0.3:9000
  old: [http://10.0.0.4, h2c://10.0.0.5]
  safe: {servers: https://10.0.0.6, tls: {server_name: api.internal}}
routes:
  - {host: api.example.com, path_prefix: /v1/, upstream: api, strip_prefix: /v1, add_prefix: /api,
     request_headers: {set: {X-Plan: gold}, remove: [X-Debug]}, response_headers: {remove: [Server]}}
  - {name: rest, upstream: web}
  - {host: "*.old.example.com", upstream: old}
  - {host: safe.example.com, upstream: safe}
`

func TestAFileNamesGroupsAndRoutes(t *testing.T) {
	s, err := Read(write(t, whole), rule.PathDecode.Form)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gateway.New(gateway.Options{Groups: s.Groups, Routes: s.Routes}); err != nil {
		t.Error(err)
	}
	api := s.Groups[0]
	if api.Name != "api" || api.Host != gateway.HostUpstream || api.HealthPath != "/healthz" || api.HealthInterval != 500*time.Millisecond {
		t.Errorf("%+v", api)
	}
	if len(api.Servers) != 2 || api.Servers[1].URL.String() != "http://10.0.0.2:9000/base" || api.Servers[1].Weight != 3 || api.Servers[0].Weight != 0 {
		t.Errorf("%+v", api.Servers)
	}
	if len(s.Groups) != 4 || len(s.Groups[1].Servers) != 1 || len(s.Groups[2].Servers) != 2 || s.Groups[3].TLS.ServerName != "api.internal" {
		t.Errorf("%+v", s.Groups)
	}
	first := s.Routes[0]
	if first.Host != "api.example.com" || first.PathPrefix != "/v1/" || first.Group != "api" || first.StripPrefix != "/v1" || first.AddPrefix != "/api" ||
		first.RequestHeaders.Set["X-Plan"] != "gold" || first.RequestHeaders.Remove[0] != "X-Debug" || first.ResponseHeaders.Remove[0] != "Server" {
		t.Errorf("%+v", first)
	}
	if s.Routes[1].Name != "rest" || len(s.Routes) != 4 {
		t.Errorf("%+v", s.Routes)
	}
}

func TestTheDocumentedFileIsRead(t *testing.T) {
	document, err := os.ReadFile("../../../../docs/gateway.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(document), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	s, err := Read(write(t, text), rule.PathDecode.Form)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gateway.New(gateway.Options{Groups: s.Groups, Routes: s.Routes}); err != nil || len(s.Routes) != 4 {
		t.Errorf("%v; %d routes", err, len(s.Routes))
	}
}

// The documented settings of upstreams that fail are their defaults, so far as they have
// any.
func TestTheDocumentedDefaultsAreTheDefaults(t *testing.T) {
	document, err := os.ReadFile("../../../../docs/gateway.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(document), "## Upstreams that fail")
	_, text, _ = strings.Cut(text, "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	s, err := Read(write(t, text), rule.PathDecode.Form)
	if err != nil {
		t.Fatal(err)
	}
	g := s.Groups[0]
	wantBreaker := breaker.Options{FailureRatio: 0.5, MinimumCalls: 20, Window: 10 * time.Second, OpenFor: time.Second, MaxOpenFor: time.Minute}
	if !reflect.DeepEqual(*g.Breaker, wantBreaker) || g.DialTimeout != 5*time.Second || g.TLSHandshakeTimeout != 5*time.Second || g.IdleTimeout != 90*time.Second {
		t.Errorf("%+v %+v", g, g.Breaker)
	}
	wantEjection := gateway.EjectionOptions{Failures: 5, For: 10 * time.Second, MaxFor: 5 * time.Minute, MaxShare: 0.5}
	if *g.Ejection != wantEjection || g.PanicBelow != 0.5 || *g.Bulkhead != (bulkhead.Options{Limit: 200, Queue: 100, MaxWait: time.Second}) {
		t.Errorf("%+v %v %+v", g.Ejection, g.PanicBelow, g.Bulkhead)
	}
	if g.Retry.Attempts != 2 || len(g.Retry.On) != 5 || g.Retry.Budget != 0.1 || s.Routes[0].Fallback.Headers["Content-Type"] != "application/json" {
		t.Errorf("%+v %+v", g.Retry, s.Routes[0].Fallback)
	}
	if _, err := gateway.New(gateway.Options{Groups: s.Groups, Routes: s.Routes}); err != nil {
		t.Error(err)
	}
	const bare = "upstreams: {api: {servers: http://a, breaker: {}, ejection: {}, panic_below: off, retry: {}, timeouts: {whole: 2m}}}"
	s, err = Read(write(t, bare), rule.PathDecode.Form)
	if err != nil {
		t.Fatal(err)
	}
	if g := s.Groups[0]; g.Breaker == nil || g.Ejection == nil || g.Retry == nil || g.PanicBelow >= 0 || g.Timeout != 2*time.Minute {
		t.Errorf("%+v", g)
	}
}

func TestOneGroupNeedsNoRoute(t *testing.T) {
	s, err := Read(write(t, "upstreams: {api: http://10.0.0.1:9000}"), rule.PathDecode.Form)
	if err != nil || len(s.Routes) != 0 || s.Groups[0].Name != "api" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestEveryMistakeHasItsPlaceAndItsMend(t *testing.T) {
	const groups = "upstreams: {api: http://a}\nroutes:\n"
	for name, c := range map[string]struct{ text, want string }{
		"empty":            {"", "gateway.yaml: is empty (write upstreams and routes)"},
		"no mapping":       {"- a\n", "gateway.yaml:1:1: the file must be keys and values (write"},
		"unknown key":      {"upstream: {}\n", "gateway.yaml:1:1: the file has no key \"upstream\" (did you mean upstreams?)"},
		"no upstreams":     {"routes: [{upstream: a}]\n", "gateway.yaml:1:21: there is no upstream \"a\""},
		"syntax":           {"upstreams: [\n", "not YAML"},
		"no URL":           {"upstreams: {api: 10.0.0.1}\n", "gateway.yaml:1:18: a server is not a URL (write it as http://10.0.0.1:9000)"},
		"a password":       {"upstreams: {api: 'http://u:secret@a'}\n", "gateway.yaml:1:18: upstream \"a\": credentials in the URL are not sent (leave them out)"},
		"scheme":           {"upstreams: {api: ftp://a}\n", "gateway.yaml:1:18: upstream \"a\": the scheme \"ftp\" is not known (use http, https or h2c)"},
		"weight":           {"upstreams: {api: [{url: http://a, weight: 0}]}\n", "gateway.yaml:1:43: weight: \"0\" is not a whole number above 0 (write it as 3)"},
		"great weight":     {"upstreams: {api: [{url: http://a, weight: 1001}]}\n", "gateway.yaml:1:19: upstream \"a\": weight 1001 is out of range (use 1 to 1000)"},
		"no servers":       {"upstreams: {api: {host: client}}\n", "gateway.yaml:1:13: there is no upstream (give at least one URL"},
		"no list":          {"upstreams: {api: []}\n", "gateway.yaml:1:18: servers must be a list (write it as [a, b]"},
		"host policy":      {"upstreams: {api: {servers: http://a, host: server}}\n", "gateway.yaml:1:44: host: \"server\" is not known (use one of auto, client, upstream)"},
		"health path":      {"upstreams: {api: {servers: http://a, health: {path: healthz}}}\n", "gateway.yaml:1:13: health path \"healthz\" is not a path (write it like /healthz)"},
		"interval":         {"upstreams: {api: {servers: http://a, health: {interval: 2}}}\n", "gateway.yaml:1:57: interval: \"2\" is not a duration above 0 (write it as 500ms or 2s)"},
		"tls without":      {"upstreams: {api: {servers: http://a, tls: {server_name: b}}}\n", "gateway.yaml:1:43: tls: no server has an https URL (write https://, or remove tls)"},
		"tls file":         {"upstreams: {api: {servers: https://a, tls: {ca: /none.pem}}}\n", "gateway.yaml:1:44: upstreams.api.tls.ca: open /none.pem: no such file or directory (name files in PEM form"},
		"half a pair":      {"upstreams: {api: {servers: https://a, tls: {cert: /a}}}\n", "gateway.yaml:1:44: upstreams.api.tls.cert and upstreams.api.tls.key: only one of them is given"},
		"skip verify":      {"upstreams: {api: {servers: https://a, tls: {skip_verify: true}}}\n", "gateway.yaml:1:45: tls has no key \"skip_verify\" (use one of ca, cert, key, server_name)"},
		"unknown upstream": {groups + "- {upstream: apj}\n- {host: b, upstream: api}\n", "gateway.yaml:3:14: there is no upstream \"apj\" (did you mean api?)"},
		"no upstream":      {groups + "- {host: a}\n- {upstream: api}\n", "gateway.yaml:3:3: a route without upstream (write upstream: and the name"},
		"unused upstream":  {"upstreams: {api: http://a, web: http://b}\nroutes: [{upstream: api}]\n", "gateway.yaml:1:28: no route leads to the upstream \"web\" (add a route, or remove the upstream)"},
		"no routes":        {"upstreams: {api: http://a, web: http://b}\n", "gateway.yaml:1:13: no route leads to the upstream \"api\""},
		"two alike":        {groups + "- {upstream: api}\n- {upstream: api, path_prefix: /}\n", "gateway.yaml:4:3: another route has the same host and path_prefix (compare it with the route in line 3)"},
		"one name":         {groups + "- {name: a, upstream: api}\n- {name: a, upstream: api, host: b}\n", "gateway.yaml:4:3: another route has the name \"a\" (compare it"},
		"path":             {groups + "- {upstream: api, path_prefix: v1}\n", "gateway.yaml:3:32: path_prefix: \"v1\" does not begin with / (write /v1)"},
		"strip":            {groups + "- {upstream: api, path_prefix: /v1, strip_prefix: /v1}\n", "gateway.yaml:3:51: strip_prefix: paths of the route may not begin with /v1/ (write path_prefix: /v1/, or longer)"},
		"header":           {groups + "- {upstream: api, request_headers: {set: {Authorization: x}}}\n", "gateway.yaml:3:36: request_headers: Authorization identifies the client"},
		"empty header":     {groups + "- {upstream: api, request_headers: {set: {X-Plan: }}}\n", "gateway.yaml:3:51: X-Plan has no value (give it one value, or remove it)"},
		"breaker key":      {"upstreams: {api: {servers: http://a, breaker: {ratio: 1}}}\n", "gateway.yaml:1:48: breaker has no key \"ratio\" (use one of failure_ratio, max_open_for"},
		"share":            {"upstreams: {api: {servers: http://a, breaker: {failure_ratio: 50}}}\n", "gateway.yaml:1:63: failure_ratio: \"50\" is not a share above 0, at most 1 (write it as 50% or 0.5)"},
		"window":           {"upstreams: {api: {servers: http://a, breaker: {window: 2h}}}\n", "gateway.yaml:1:47: breaker: window: 2h0m0s is out of range (use 1s to 1h0m0s)"},
		"timeouts":         {"upstreams: {api: {servers: http://a, timeouts: {connect: 1h, whole: 48h}}}\n", "gateway.yaml:1:48: timeouts: whole: 48h0m0s is out of range (use 1ms to 24h0m0s)"},
		"ejection times":   {"upstreams: {api: {servers: http://a, ejection: {for: 1m, max_for: 30s}}}\n", "gateway.yaml:1:48: ejection: max_for: 30s is less than for, 1m0s"},
		"panic":            {"upstreams: {api: {servers: http://a, panic_below: never}}\n", "panic_below: \"never\" is not a share"},
		"no limit":         {"upstreams: {api: {servers: http://a, bulkhead: {queue: 10}}}\n", "gateway.yaml:1:48: bulkhead has no limit (write limit: and how many"},
		"retry on":         {"upstreams: {api: {servers: http://a, retry: {on: [500]}}}\n", "gateway.yaml:1:45: retry: on: \"500\" is not known (use connect, reset, 502, 503 or 504)"},
		"attempts":         {"upstreams: {api: {servers: http://a, retry: {attempts: 1}}}\n", "gateway.yaml:1:45: retry: attempts: 1 is out of range (use 2 to 5)"},
		"fallback":         {groups + "- {upstream: api, fallback: {body: sorry}}\n", "gateway.yaml:3:29: fallback: status 0 is out of range (use 200 to 599)"},
		"fallback header":  {groups + "- {upstream: api, fallback: {status: 200, headers: {Authorization: x}}}\n", "gateway.yaml:3:29: fallback: Authorization identifies the client"},
		"second key":       {groups + "- {upstream: api, host: a, host: b}\n", "gateway.yaml:3:28: a route has the key \"host\" a second time (remove it, or the one in line 3)"},
		"merge":            {groups + "- {<<: {host: a}, upstream: api}\n", "gateway.yaml:3:4: a key << is not merged (write the keys out)"},
		"no name":          {"upstreams: {'': http://a}\n", "gateway.yaml:1:13: an upstream has no name (write it as api: http://10.0.0.1:9000)"},
		"port":             {"upstreams: {api: http://a:99999}\n", "gateway.yaml:1:18: upstream \"a:99999\": the port is out of range (use 1 to 65535)"},
		"port 0":           {"upstreams: {api: http://a:0}\n", "the port is out of range"},
		"quick checks":     {"upstreams: {api: {servers: http://a, health: {interval: 1ns}}}\n", "gateway.yaml:1:46: health: interval: 1ns is out of range (use 1ms to 1h0m0s)"},
		"open times":       {"upstreams: {api: {servers: http://a, breaker: {open_for: 1m, max_open_for: 30s}}}\n", "gateway.yaml:1:47: breaker: max_open_for: 30s is less than open_for, 1m0s (make it longer, or remove it)"},
		"letters":          {groups + "- {upstream: api, host: bücher.example}\n", "gateway.yaml:3:25: host: \"bücher.example\" is not a host name (write it in ASCII as api.example.com"},
		"all, not one":     {groups + "- {upstream: api, host: a b}\n- {upstream: api, path_prefix: b}\n", "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(write(t, c.text), rule.PathDecode.Form)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
}

// A value that cannot be read is one mistake, and no check of its range reports it again.
func TestAMistakeIsReportedOnce(t *testing.T) {
	for _, fields := range []string{"bulkhead: {limit: 99999999999999999999}", "breaker: {failure_ratio: NaN}", "panic_below: 101%", "retry: {budget: -1}", "timeouts: {header: -1s}", "breaker: {open_for: soon}"} {
		_, err := Read(write(t, "upstreams: {api: {servers: http://a, "+fields+"}}\n"), rule.PathDecode.Form)
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one line", fields, err)
		}
	}
}

func TestAMissingFileIsNamed(t *testing.T) {
	if _, err := Read(filepath.Join(t.TempDir(), "none.yaml"), nil); err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Error(err)
	}
}
