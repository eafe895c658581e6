package server

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// TestClientsSetNoStatus asks like a proxy that appends its client's path and query to /v1/auth.
// A status in the client's query changes nothing.
func TestClientsSetNoStatus(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, "rules:\n  - {id: every, by: [api_key], limit: 1, window: 60}\n"), TrustedProxies: thisMachine})
	s.get("http", "/v1/auth", "X-API-Key", "k")
	for _, path := range []string{
		"/?deny_status=418", "/?deny_status=x", "/?deny_status=403&error_status=418", "/orders?deny_status=418", "//?deny_status=418", "/;deny_status=418", "/;deny_status=418/orders",
		"/orders;deny_status=418?deny_status=418", "/%3Bdeny_status=418", "/..?deny_status=418", "/../auth?deny_status=418", "/%2e%2e/auth?deny_status=418",
	} {
		for _, prefix := range []string{"/v1/auth", "/v1/auth;error_status=429"} {
			got := s.get("http", prefix+path, "X-API-Key", "k")
			if got.status != http.StatusTooManyRequests || got.header.Get("X-RateLimit-Body") != "" {
				t.Errorf("%s%s: status %d, %v", prefix, path, got.status, got.header)
			}
			if got := s.get("http", "/v1/auth", "X-API-Key", "k", "X-Original-URI", path); got.status != http.StatusTooManyRequests {
				t.Errorf("X-Original-URI %s: status %d", path, got.status)
			}
		}
	}
	if got := s.get("http", "/v1/auth;deny_status=403/?deny_status=418", "X-API-Key", "k"); got.status != http.StatusForbidden {
		t.Errorf("the proxy's own: status %d", got.status)
	}
	if got := s.get("http", "/v1/auth?deny_status=403&deny_status=418", "X-API-Key", "k"); got.status != http.StatusForbidden {
		t.Errorf("two, of which the proxy's is the first: status %d", got.status)
	}
}

func TestParametersAreNoPartOfThePath(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, byPath), TrustedProxies: thisMachine})
	for i, path := range []string{"/v1/auth;deny_status=403/orders", "/v1/auth;deny_status=403&error_status=429/orders", "/v1/auth;/orders"} {
		key := strconv.Itoa(i)
		s.do("POST", "http", path, "", []string{"X-API-Key", key})
		if got := s.do("POST", "http", path, "", []string{"X-API-Key", key}); got.header.Get("X-RateLimit-Status") != "429" {
			t.Errorf("%s: %v", path, got.header)
		}
	}
	s.get("http", "/v1/auth;deny_status=403", "X-API-Key", "header", "X-Original-URI", "/orders", "X-Original-Method", "POST")
	if got := s.get("http", "/v1/auth;deny_status=403", "X-API-Key", "header", "X-Original-URI", "/orders", "X-Original-Method", "POST"); got.status != http.StatusForbidden {
		t.Errorf("with a header: status %d", got.status)
	}
	for _, bad := range []string{"200", "500", "399", "x", ""} {
		for _, name := range []string{"deny_status", "error_status"} {
			if got := s.get("http", "/v1/auth;"+name+"="+bad+"/orders"); got.status != http.StatusBadRequest || !strings.Contains(got.errorMessage(), name) {
				t.Errorf("%s=%s: status %d, %s", name, bad, got.status, got.body)
			}
		}
	}
}

// TestErrorStatusStandsForFailures asks like deploy/envoy: Envoy treats a status of 500 and
// above as a failure, and lets the request pass.
func TestErrorStatusStandsForFailures(t *testing.T) {
	s := guarded(t, Config{})
	for path, want := range map[string]string{"/closed": "LIMITER_UNAVAILABLE", "/both": "LIMITER_UNAVAILABLE"} {
		plain := s.get("http", "/v1/auth"+path, "X-API-Key", "k")
		changed := s.get("http", "/v1/auth;error_status=429"+path, "X-API-Key", "k")
		if plain.status != http.StatusServiceUnavailable || changed.status != http.StatusTooManyRequests {
			t.Errorf("%s: status %d, and %d", path, plain.status, changed.status)
		}
		if !strings.Contains(changed.body, want) || changed.header.Get("X-RateLimit-Status") != "503" || changed.header.Get("Retry-After") == "" {
			t.Errorf("%s: %v, %s", path, changed.header, changed.body)
		}
	}
	if got := s.get("http", "/v1/auth;error_status=429/open", "X-API-Key", "k"); got.status != http.StatusOK {
		t.Errorf("open: status %d", got.status)
	}
}
