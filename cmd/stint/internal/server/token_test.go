package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stintdev/stint/cmd/stint/internal/httpapi"
)

func TestTokenIsAskedFor(t *testing.T) {
	s := run(t, Config{HTTPToken: "s3cret", AdminToken: "adm1n"})
	const take = `{"key":"k","limit":"1/m"}`
	for name, c := range map[string]struct {
		method, listener, path, body string
		header                       []string
		want                         int
	}{
		"none":                    {"POST", "http", "/v1/take", take, nil, 401},
		"wrong":                   {"POST", "http", "/v1/take", take, []string{"Authorization", "Bearer s3cre"}, 401},
		"empty":                   {"POST", "http", "/v1/take", take, []string{"Authorization", "Bearer "}, 401},
		"another scheme":          {"POST", "http", "/v1/take", take, []string{"Authorization", "Basic s3cret"}, 401},
		"that of another":         {"POST", "http", "/v1/take", take, []string{"Authorization", "Bearer adm1n"}, 401},
		"wrong beside right":      {"POST", "http", "/v1/take", take, []string{"Authorization", "Bearer s3cret", httpapi.TokenHeader, "x"}, 401},
		"check without":           {"POST", "http", "/v1/check", `{"attributes":{}}`, nil, 401},
		"forward auth without":    {"GET", "http", "/v1/auth", "", nil, 401},
		"right":                   {"POST", "http", "/v1/take", take, []string{"Authorization", "bearer s3cret"}, 200},
		"right, in its own field": {"POST", "http", "/v1/take", take, []string{httpapi.TokenHeader, "s3cret"}, 200},
		"health is open":          {"GET", "http", "/healthz", "", nil, 200},
		"readiness is open":       {"GET", "http", "/readyz", "", nil, 200},
		"metrics without":         {"GET", "admin", "/metrics", "", nil, 401},
		"metrics with":            {"GET", "admin", "/metrics", "", []string{"Authorization", "Bearer adm1n"}, 200},
		"reset without":           {"POST", "admin", "/v1/reset", take, nil, 401},
		"health on admin":         {"GET", "admin", "/healthz", "", nil, 200},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.do(c.method, c.listener, c.path, c.body, c.header)
			if got.status != c.want {
				t.Errorf("status %d: %s", got.status, got.body)
			}
			if challenge := got.header.Get("WWW-Authenticate"); (challenge != "") != (c.want == http.StatusUnauthorized) {
				t.Errorf("WWW-Authenticate: %q", challenge)
			}
		})
	}
}

func TestRefusedTokensAreCounted(t *testing.T) {
	s := run(t, Config{HTTPToken: "s3cret", AdminToken: "adm1n"})
	for range 2 {
		s.do("GET", "http", "/v1/auth", "", nil)
		s.do("GET", "admin", "/metrics", "", nil)
	}
	s.do("GET", "admin", "/rules", "", []string{"Authorization", "Bearer s3cret"})
	s.do("GET", "http", "/v1/auth", "", []string{"Authorization", "Bearer s3cret"})
	got := s.do("GET", "admin", "/metrics", "", []string{"Authorization", "Bearer adm1n"}).body
	for _, want := range []string{`stint_auth_failures_total{listener="http"} 2`, `stint_auth_failures_total{listener="admin"} 3`} {
		if !strings.Contains(got, "\n"+want+"\n") {
			t.Errorf("%s is not there:\n%s", want, onlyOurs(got))
		}
	}
}

func TestServersTokenIsNobodysIdentity(t *testing.T) {
	s := run(t, Config{HTTPToken: "s3cret", Rules: rulesFile(t, "rules:\n  - {id: a, by: [api_key], missing: skip, limit: 1, window: 60}\n")})
	for range 2 {
		if got := s.get("http", "/v1/auth/x", "Authorization", "Bearer s3cret"); got.status != http.StatusOK {
			t.Errorf("the proxy's own token was counted: status %d", got.status)
		}
	}
	client := []string{httpapi.TokenHeader, "s3cret", "Authorization", "Bearer client"}
	if got := s.get("http", "/v1/auth/x", client...); got.status != http.StatusOK {
		t.Errorf("the first of the client: status %d", got.status)
	}
	if got := s.get("http", "/v1/auth/x", client...); got.status != http.StatusTooManyRequests {
		t.Errorf("the second of the client: status %d", got.status)
	}
}
