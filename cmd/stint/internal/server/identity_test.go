package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/cmd/stint/internal/identity"
)

// tokens signs tokens that a server with its keys verifies.
type tokens struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	keys *identity.Keys
}

func newTokens(t *testing.T) *tokens {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	document, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "1"}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(path, document, 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := identity.OpenKeys(t.Context(), path, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return &tokens{t, key, keys}
}

// of returns a token with a subject. Each one is another text, as each login gives another.
func (k *tokens) of(subject string) string {
	k.t.Helper()
	text, err := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{"sub": subject, "jti": rand.Text()}).SignedString(k.key)
	if err != nil {
		k.t.Fatal(err)
	}
	return text
}

// config returns the configuration of a server on every surface that sees requests.
func (k *tokens) config(rules string, settings *identity.Settings) Config {
	k.t.Helper()
	settings.TokenFrom = "bearer"
	id, err := identity.New(settings, k.keys)
	if err != nil {
		k.t.Fatal(err)
	}
	return Config{
		Rules: rulesFile(k.t, rules), GRPC: "127.0.0.1:0", Gateway: "127.0.0.1:0", Upstreams: echo(k.t),
		TrustedProxies: thisMachine, Identity: id, Keys: k.keys,
	}
}

// surfaces ask for a request with a header, on every surface, and return the status that
// the client of the request would get.
func surfacesOf(t *testing.T, s *running) map[string]func(header, value string) int {
	t.Helper()
	conn := dialGRPC(t, s)
	native, envoy := stintv1.NewLimiterServiceClient(conn), authpb.NewAuthorizationClient(conn)
	checked := func(a answer) int {
		var decision struct{ Allowed bool }
		if _ = json.Unmarshal([]byte(a.body), &decision); a.status == http.StatusOK && !decision.Allowed {
			return http.StatusTooManyRequests
		}
		return a.status
	}
	attributes := func(header, value string) string {
		text, err := json.Marshal(map[string]string{"ip": "127.0.0.1", "path": "/", "header:" + strings.ToLower(header): value})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	return map[string]func(header, value string) int{
		"gateway":      func(header, value string) int { return s.get("gateway", "/", header, value).status },
		"forward auth": func(header, value string) int { return s.get("http", "/v1/auth/", header, value).status },
		"check": func(header, value string) int {
			return checked(s.post("http", "/v1/check", `{"attributes":`+attributes(header, value)+`}`))
		},
		"gRPC": func(header, value string) int {
			a, err := native.Check(patient(t), &stintv1.CheckRequest{Attributes: map[string]string{"ip": "127.0.0.1", "header:" + strings.ToLower(header): value}})
			switch {
			case err != nil:
				return http.StatusBadRequest
			case !a.GetDecision().GetAllowed():
				return http.StatusTooManyRequests
			}
			return http.StatusOK
		},
		"Envoy": func(header, value string) int {
			a, err := envoy.Check(patient(t), described("127.0.0.1", "/", map[string]string{strings.ToLower(header): value}))
			if err != nil {
				t.Fatal(err)
			}
			return code(a)
		},
	}
}

// TestSurfacesIdentifyAlike counts one client through every surface in turn: a client that
// one surface takes for another would have a count of its own there.
func TestSurfacesIdentifyAlike(t *testing.T) {
	k := newTokens(t)
	byKey := "{id: every, by: [api_key], missing: deny, limit: %d, window: 3600}\n"
	for name, c := range map[string]struct {
		rule    string
		sources []string
		header  string
		value   func() string
		other   string // a value of nobody
	}{
		"a claim":        {"{id: every, by: ['jwt:sub'], missing: deny, limit: %d, window: 3600}\n", nil, "Authorization", func() string { return "Bearer " + k.of("ann") }, "Bearer " + newTokens(t).of("ann")},
		"a claim as key": {byKey, []string{"jwt:sub", "header:X-Key"}, "Authorization", func() string { return "Bearer " + k.of("ann") }, "Bearer " + newTokens(t).of("ann")},
		"a scheme":       {byKey, []string{"header:Authorization:ApiKey"}, "Authorization", func() string { return "ApiKey ann" }, "Bearer ann"},
		"a bare token":   {byKey, []string{"bearer", "header:Authorization"}, "Authorization", func() string { return "ann" }, "Bearer "},
		"a cookie":       {byKey, []string{"cookie:session"}, "Cookie", func() string { return "a=1; session=ann" }, "sessions=ann"},
		"a header":       {byKey, []string{"header:X-Key"}, "X-Key", func() string { return "ann" }, ""},
		"the default":    {byKey, nil, "X-API-Key", func() string { return "ann" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := k
			k.t = t
			if name == "a bare token" {
				c.other = ""
			}
			limit := 5
			s := run(t, k.config("rules:\n  - "+fmt.Sprintf(c.rule, limit), &identity.Settings{Sources: c.sources}))
			surfaces := surfacesOf(t, s)
			for surface, ask := range surfaces {
				if got := ask(c.header, c.value()); got != http.StatusOK {
					t.Errorf("%s: the client: %d", surface, got)
				}
			}
			for surface, ask := range surfaces {
				if got := ask(c.header, c.value()); got != http.StatusTooManyRequests {
					t.Errorf("%s: the client again: %d", surface, got)
				}
				if got := ask(c.header, c.other); got == http.StatusOK {
					t.Errorf("%s: nobody: %d", surface, got)
				}
			}
		})
	}
}

// TestTheIdentityOfRulesIsThatOfEverySurface has a file whose head replaces the setting, and
// then another file without one.
func TestTheIdentityOfRulesIsThatOfEverySurface(t *testing.T) {
	k := newTokens(t)
	rules := "rules: [{id: every, by: [api_key], missing: deny, limit: 5, window: 3600}]\n"
	config := k.config("identity: ['header:X-File:Token', 'jwt:sub']\n"+rules, &identity.Settings{Sources: []string{"header:X-Flag"}})
	s := run(t, config)
	surfaces := surfacesOf(t, s)
	for surface, ask := range surfaces {
		if got := ask("X-File", "Token ann"); got != http.StatusOK {
			t.Errorf("%s: the source of the file: %d", surface, got)
		}
		if got := ask("Authorization", "Bearer "+k.of("bob")); got != http.StatusOK {
			t.Errorf("%s: the claim: %d", surface, got)
		}
		if got := ask("X-Flag", "ann"); got == http.StatusOK {
			t.Errorf("%s: the source of the setting: %d", surface, got)
		}
	}
	for surface, ask := range surfaces {
		if got := ask("X-File", "Token ann"); got != http.StatusTooManyRequests {
			t.Errorf("%s: the source of the file again: %d", surface, got)
		}
	}
	if want := "rules.yaml:1:12: identity of the rules replaces --identity"; !strings.Contains(s.logs.String(), want) {
		t.Errorf("%q is not in the log:\n%s", want, s.logs)
	}
	if got := s.get("gateway", "/", "Connection", "X-File", "X-File", "Token ann"); got.status != http.StatusBadRequest {
		t.Errorf("a Connection that names the source: %d", got.status)
	}
	writeFile(t, config.Rules, strings.Replace(rules, "every", "other", 1))
	s.Reload()
	s.logs.wait(t, "rules reloaded")
	for surface, ask := range surfaces {
		if got := ask("X-Flag", "ann"); got != http.StatusOK {
			t.Errorf("%s: the source of the setting, once the file has none: %d", surface, got)
		}
	}
}

// TestRulesThatThisServerCannotApplyAreRefused starts and reloads servers without keys.
func TestRulesThatThisServerCannotApplyAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ rules, http, want string }{
		"a claim as key": {"rules: []\nidentity: [bearer, 'jwt:sub']\n", "127.0.0.1:0", "rules.yaml:2:20: jwt:sub is a claim, and no key verifies tokens (give --jwt-keys"},
		"nobody sends":   {"rules:\n  - {id: a, by: ['jwt:sub'], limit: 1, window: 1}\n", "", `rules.yaml:2:18: "jwt:sub": the server verifies no tokens`},
	} {
		config := Config{Rules: rulesFile(t, c.rules), HTTP: c.http, Gateway: "127.0.0.1:0", Upstreams: echo(t), Store: stint.NewMemory(stint.MemoryOptions{})}
		if _, err := New(config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	config := Config{Rules: rulesFile(t, "rules: [{id: a, by: [api_key], limit: 1, window: 3600}]")}
	s := run(t, config)
	writeFile(t, config.Rules, "rules: []\nidentity: 'jwt:sub'\n")
	s.Reload()
	s.logs.wait(t, "rules.yaml:2:11: jwt:sub is a claim")
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if got := s.get("http", "/v1/auth/", "X-API-Key", "ann"); got.status != want {
			t.Errorf("the rules from before: %d; want %d", got.status, want)
		}
	}
}

// TestInvalidTokensAreRejectedWhereTold compares the two settings on every surface.
func TestInvalidTokensAreRejectedWhereTold(t *testing.T) {
	k := newTokens(t)
	forged := "Bearer " + newTokens(t).of("ann")
	for _, reject := range []bool{false, true} {
		s := run(t, k.config("rules:\n  - {id: every, by: ['jwt:sub'], limit: 100, window: 3600}\n", &identity.Settings{Reject: reject}))
		for surface, ask := range surfacesOf(t, s) {
			want := http.StatusOK
			if reject {
				want = http.StatusUnauthorized
			}
			if reject && (surface == "check" || surface == "gRPC") { // the answer is to the application
				want = http.StatusBadRequest
			}
			if got := ask("Authorization", forged); got != want {
				t.Errorf("reject %v, %s: %d; want %d", reject, surface, got, want)
			}
			if got := ask("Authorization", "Bearer "+k.of("bob")); got != http.StatusOK {
				t.Errorf("reject %v, %s: a good token: %d", reject, surface, got)
			}
		}
	}
}

// TestClaimsThatNoKeyVerifiesAreReported loads rules that read claims, on a server without
// keys and without a gateway.
func TestClaimsThatNoKeyVerifiesAreReported(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, "rules:\n  - {id: a, by: ['jwt:sub'], limit: 1, window: 1}\n")})
	if want := `rules.yaml:2:18: \"jwt:sub\": the server verifies no tokens (give --jwt-keys`; !strings.Contains(s.logs.String(), want) {
		t.Errorf("%q is not in the log:\n%s", want, s.logs)
	}
}

// TestWholeTokensAsKeysAreReported gives a server keys, and leaves its API keys where tokens
// are.
func TestWholeTokensAsKeysAreReported(t *testing.T) {
	s := run(t, newTokens(t).config("rules: [{id: a, limit: 1, window: 1}]", &identity.Settings{}))
	if want := "each new token gets a new count"; !strings.Contains(s.logs.String(), want) {
		t.Errorf("%q is not in the log:\n%s", want, s.logs)
	}
}
