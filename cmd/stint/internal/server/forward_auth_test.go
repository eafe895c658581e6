package server

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
)

var thisMachine = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// byPath has a limit for one path and method, so that a test sees which
// request was understood.
const byPath = `
rules:
  - {id: orders, match: {path: /orders, methods: [POST]}, by: [api_key], limit: 1, window: 60}
  - {id: hosts, match: {path: /hosts, host: shop.example}, by: [api_key], limit: 1, window: 60}
blacklist: ["revoked"]
`

func TestForwardAuthTellsTheDecision(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, byPath)})
	first := s.do("POST", "http", "/v1/auth/orders", "", []string{"X-API-Key", "k"})
	if first.status != http.StatusOK || first.body != "" || first.header.Get("X-RateLimit-Status") != "200" {
		t.Errorf("allowed: status %d, %v, %q", first.status, first.header, first.body)
	}
	if got := first.header.Get("X-RateLimit-Remaining"); got != "0" {
		t.Errorf("X-RateLimit-Remaining: %q", got)
	}
	second := s.do("POST", "http", "/v1/auth/orders", "", []string{"X-API-Key", "k"})
	if second.status != http.StatusTooManyRequests || second.header.Get("X-RateLimit-Status") != "429" || second.header.Get("Retry-After") != "60" {
		t.Errorf("denied: status %d, %v", second.status, second.header)
	}
	if !strings.Contains(second.body, "RATE_LIMIT_EXCEEDED") {
		t.Errorf("denied: %s", second.body)
	}
	other := s.get("http", "/v1/auth/other", "X-API-Key", "k")
	if other.status != http.StatusOK || other.header.Get("X-RateLimit-Status") != "200" || other.header.Get("X-RateLimit-Limit") != "" {
		t.Errorf("not counted: status %d, %v", other.status, other.header)
	}
}

func TestDenyStatusStandsForEveryDenial(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, byPath)})
	s.do("POST", "http", "/v1/auth/orders", "", []string{"X-API-Key", "k"})
	for name, c := range map[string]struct {
		path, key  string
		want, real int
	}{
		"over the limit":         {"/v1/auth;deny_status=403/orders", "k", 403, 429},
		"on the list":            {"/v1/auth/orders", "revoked", 403, 403},
		"on the list, as wanted": {"/v1/auth;deny_status=401/orders", "revoked", 401, 403},
		"allowed":                {"/v1/auth;deny_status=403/orders", "j", 200, 200},
	} {
		got := s.do("POST", "http", c.path, "", []string{"X-API-Key", c.key})
		if got.status != c.want || got.header.Get("X-RateLimit-Status") != strconv.Itoa(c.real) {
			t.Errorf("%s: status %d, really %s, want %d, %d", name, got.status, got.header.Get("X-RateLimit-Status"), c.want, c.real)
		}
	}
	for _, bad := range []string{"200", "500", "399", "x", "", "403x"} {
		if got := s.get("http", "/v1/auth?deny_status="+bad); got.status != http.StatusBadRequest {
			t.Errorf("deny_status=%s: status %d", bad, got.status)
		}
	}
}

// A proxy that drops the body finds the true status in a header.
func TestDenyStatusBringsTheTrueBody(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, byPath)})
	s.do("POST", "http", "/v1/auth/orders", "", []string{"X-API-Key", "k"})
	for _, accept := range []string{"application/json", "application/problem+json"} {
		header := []string{"X-API-Key", "k", "Accept", accept}
		plain := s.do("POST", "http", "/v1/auth/orders", "", header)
		changed := s.do("POST", "http", "/v1/auth;deny_status=403/orders", "", header)
		if changed.header.Get("X-RateLimit-Body") != plain.body || plain.body == "" || plain.header.Get("X-RateLimit-Body") != "" {
			t.Errorf("%s: %q\nwant %q", accept, changed.header.Get("X-RateLimit-Body"), plain.body)
		}
		if got := changed.header.Get("Content-Type"); got != accept {
			t.Errorf("Content-Type: %s", got)
		}
	}
}

func TestLongBodyStaysOutOfTheHeader(t *testing.T) {
	var many strings.Builder
	for i := range 20 {
		fmt.Fprintf(&many, "  - {id: %s-%d, by: [api_key], limit: 1, window: 60}\n", strings.Repeat("x", 60), i)
	}
	s := run(t, Config{Rules: rulesFile(t, "rules:\n"+many.String())})
	s.get("http", "/v1/auth", "X-API-Key", "k")
	got := s.get("http", "/v1/auth?deny_status=403", "X-API-Key", "k", "Accept", "application/problem+json")
	if got.status != http.StatusForbidden || len(got.body) <= 1<<10 || got.header.Get("X-RateLimit-Body") != "" {
		t.Errorf("%d, %d bytes of body, %d in the header", got.status, len(got.body), len(got.header.Get("X-RateLimit-Body")))
	}
}

// TestOriginalRequestIsRead sends each request twice: the second is denied
// when it was understood as POST /orders.
func TestOriginalRequestIsRead(t *testing.T) {
	trusting := run(t, Config{Rules: rulesFile(t, byPath), TrustedProxies: thisMachine})
	wary := run(t, Config{Rules: rulesFile(t, byPath)})
	for name, c := range map[string]struct {
		server  *running
		method  string
		path    string
		header  []string
		counted bool
	}{
		"nginx":                  {trusting, "GET", "/v1/auth", []string{"X-Original-URI", "/orders?page=2", "X-Original-Method", "POST"}, true},
		"Traefik and Caddy":      {trusting, "GET", "/v1/auth", []string{"X-Forwarded-Uri", "/orders", "X-Forwarded-Method", "POST"}, true},
		"Envoy":                  {trusting, "POST", "/v1/auth/orders", nil, true},
		"another method":         {trusting, "POST", "/v1/auth", []string{"X-Original-URI", "/orders", "X-Original-Method", "GET"}, false},
		"no method said":         {trusting, "POST", "/v1/auth", []string{"X-Original-URI", "/orders"}, true},
		"a whole URL":            {trusting, "POST", "/v1/auth", []string{"X-Original-URI", "https://shop.example/orders"}, true},
		"escaped":                {trusting, "POST", "/v1/auth", []string{"X-Original-URI", "/%6Frders/./"}, true},
		"not a URL":              {trusting, "POST", "/v1/auth", []string{"X-Original-URI", "/orders?a=%zz"}, true},
		"a fragment":             {trusting, "POST", "/v1/auth", []string{"X-Original-URI", "/orders#x"}, true},
		"hosts in lines":         {trusting, "GET", "/v1/auth/hosts", []string{"X-Forwarded-Host", "cdn.example", "X-Forwarded-Host", "shop.example"}, true},
		"no slash at its start":  {trusting, "POST", "/v1/auth", []string{"X-Original-URI", "orders"}, true},
		"both, the same":         {trusting, "POST", "/v1/auth", []string{"X-Original-URI", "/orders", "X-Forwarded-Uri", "/orders"}, true},
		"host":                   {trusting, "GET", "/v1/auth/hosts", []string{"X-Forwarded-Host", "cdn.example, shop.example"}, true},
		"another host":           {trusting, "GET", "/v1/auth/hosts", []string{"X-Forwarded-Host", "shop.example, cdn.example"}, false},
		"who is not trusted":     {wary, "POST", "/v1/auth", []string{"X-Original-URI", "/orders"}, false},
		"path of anybody":        {wary, "POST", "/v1/auth/orders", []string{"X-Original-URI", "/free", "X-Original-Method", "GET"}, true},
		"escapes in the prefix":  {wary, "POST", "/v1%2Fauth/orders", nil, true},
		"no redirect on slashes": {wary, "POST", "/v1/auth//orders", nil, true},
		"a neighbour":            {wary, "POST", "/v1/auth/ordersx", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			header := append([]string{"X-API-Key", strings.ReplaceAll(name, ",", "")}, c.header...)
			first := c.server.do(c.method, "http", c.path, "", header)
			second := c.server.do(c.method, "http", c.path, "", header)
			if first.status != http.StatusOK {
				t.Fatalf("the first: status %d, %s", first.status, first.body)
			}
			if counted := second.status == http.StatusTooManyRequests; counted != c.counted {
				t.Errorf("counted: %v, want %v (status %d)", counted, c.counted, second.status)
			}
		})
	}
	wary.logs.wait(t, "trusted-proxies")
}

func TestContradictingHeadersAreRefused(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, byPath), TrustedProxies: thisMachine})
	for name, header := range map[string][]string{
		"URIs":    {"X-Original-URI", "/free", "X-Forwarded-Uri", "/orders"},
		"methods": {"X-Original-Method", "GET", "X-Forwarded-Method", "POST"},
		"lines":   {"X-Original-URI", "/free", "X-Original-URI", "/orders"},
	} {
		if got := s.get("http", "/v1/auth", header...); got.header.Get("X-RateLimit-Status") != "400" || got.status != http.StatusBadRequest || !strings.Contains(got.errorMessage(), "contradicts") {
			t.Errorf("%s: status %d, %s", name, got.status, got.body)
		}
	}
	if got := s.get("http", "/v1/auth/orders", "X-Original-URI", "/free"); got.status != http.StatusBadRequest {
		t.Errorf("path and header: status %d", got.status)
	}
}

func TestForwardAuthCountsByTheClientOfATrustedProxy(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, "rules:\n  - {id: a, by: [ip], limit: 1, window: 60}\n"), TrustedProxies: thisMachine})
	for _, c := range []struct {
		client string
		want   int
	}{{"203.0.113.1", 200}, {"203.0.113.2", 200}, {"203.0.113.1", 429}} {
		if got := s.get("http", "/v1/auth", "X-Forwarded-For", c.client); got.status != c.want {
			t.Errorf("%s: status %d, want %d", c.client, got.status, c.want)
		}
	}
}

func TestForwardAuthReportsADelay(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, "rules:\n  - {id: a, by: [api_key], algorithm: leaky_bucket, limit: 1, window: 60, params: {queue: 5}}\n")})
	s.get("http", "/v1/auth", "X-API-Key", "k")
	if got := s.get("http", "/v1/auth", "X-API-Key", "k"); got.status != http.StatusOK || got.header.Get("X-RateLimit-Delay-Ms") != "60000" {
		t.Errorf("status %d, %v", got.status, got.header)
	}
}

func TestHeadersFollowTheDialectOfTheRule(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, "rules:\n  - {id: a, by: [api_key], limit: 5, window: 60, headers: ietf-03}\n")})
	got := s.get("http", "/v1/auth", "X-API-Key", "k")
	if got.header.Get("RateLimit-Limit") != "5" || got.header.Get("X-RateLimit-Limit") != "" {
		t.Errorf("%v", got.header)
	}
}

// Envoy joins the lines of a field by commas for the check, and sends them separately to the
// application. A second line beside a key must not make another key.
func TestForwardAuthRefusesJoinedLines(t *testing.T) {
	t.Parallel()
	s := run(t, Config{Rules: rulesFile(t, `rules:
  - {id: keys, match: {path: /key}, by: [api_key], missing: deny, limit: 1, window: 60}
  - {id: tenants, match: {path: /tenant}, by: ["header:x-tenant"], missing: deny, limit: 1, window: 60}
  - {id: agents, match: {path: /agent}, by: ["header:user-agent"], limit: 1, window: 60}
`)})
	for _, c := range []struct {
		path, name, value string
		want              int
	}{
		{"/key", "X-API-Key", "k", 200},
		{"/key", "X-API-Key", "decoy,k", 400},
		{"/key", "X-API-Key", "k, decoy", 400},
		{"/key", "X-API-Key", "k,", 400},
		{"/key", "Authorization", "Bearer a,Bearer b", 400},
		{"/key", "Authorization", "Digest a=\"b,Bearer k", 400},
		{"/key", "Authorization", "Digest a=b, c=d", 429}, // the key is missing
		{"/tenant", "X-Tenant", "a,b", 400},
		{"/tenant", "X-Tenant", "a", 200},
		{"/agent", "User-Agent", "x (y, like z)", 200},
		{"/agent", "User-Agent", "x (y, like z)", 429},
	} {
		if got := s.get("http", "/v1/auth"+c.path, c.name, c.value); got.status != c.want {
			t.Errorf("%s with %s: %s: %d %s, want %d", c.path, c.name, c.value, got.status, got.body, c.want)
		}
	}
}
