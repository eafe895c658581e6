package server

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const tiered = `# Ours.
tiers:
  free: {api_key_pattern: "sk_free_*", limit: 2, window: 60}
rules:
  - id: by-tier # nothing of its own
    by: [api_key]
`

// limitOf returns the limit that applies to a key.
func (r *running) limitOf(key string) any {
	r.t.Helper()
	return r.post("http", "/v1/check", `{"attributes":{"api_key":"`+key+`","path":"/"},"cost":0}`).decoded(r.t)["limit"]
}

func (r *running) put(path, body string, header ...string) answer {
	r.t.Helper()
	return r.do(http.MethodPut, "admin", path, body, header)
}

func TestATierIsChangedAndInForceOnceAnswered(t *testing.T) {
	file := rulesFile(t, tiered)
	s := run(t, Config{Rules: file})
	if got := s.put("/rules/tier/free", `{"limit":500,"capacity":500}`); got.status != http.StatusOK {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	if got := s.limitOf("sk_free_1"); got != 500.0 {
		t.Errorf("limit %v", got)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(tiered, "limit: 2, window: 60", "limit: 500, window: 60, capacity: 500", 1); string(text) != want {
		t.Errorf("the file says\n%s", text)
	}
	if got := s.put("/rules/tier/gold", `{"limit":9,"window":60,"api_key_pattern":"sk_gold_*"}`); got.status != http.StatusOK {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	if got := s.limitOf("sk_gold_1"); got != 9.0 {
		t.Errorf("limit %v", got)
	}
}

func TestARuleOfTheBuiltInSetIsReplaced(t *testing.T) {
	s := run(t, Config{})
	if got := s.put("/rules/default", `{"id":"default","limit":7,"window":60}`); got.status != http.StatusOK {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	if got := s.limitOf("k"); got != 7.0 {
		t.Errorf("limit %v", got)
	}
	s.wantMetric(`stint_rules_version 1`, true)
}

func TestARuleOrATierHasTheirTag(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, tiered)})
	read := s.get("admin", "/rules/tier/free")
	wantJSON(t, read.body, `{"api_key_pattern":"sk_free_*","limit":2,"window":60}`)
	tag := read.header.Get("ETag")
	if got := s.put("/rules/tier/free", `{"limit":3}`, "If-Match", tag); got.status != http.StatusOK {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	got := s.put("/rules/tier/free", `{"limit":4}`, "If-Match", tag)
	if got.status != http.StatusPreconditionFailed || !strings.Contains(got.body, "limit: 3") {
		t.Errorf("status %d: %s", got.status, got.body)
	}
	if got := s.put("/rules/tier/free", `{"limit":5}`); got.status != http.StatusOK {
		t.Errorf("without If-Match: status %d: %s", got.status, got.body)
	}
	if got := s.put("/rules/tier/none", `{"limit":5}`, "If-Match", tag); got.status != http.StatusPreconditionFailed {
		t.Errorf("of a tier that is not there: status %d: %s", got.status, got.body)
	}
}

func TestTheWholeSetIsReplaced(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, tiered)})
	tag := s.get("admin", "/rules").header.Get("ETag")
	if got := s.put("/rules", "rules: [{id: all, by: [api_key], limit: 11, window: 60}]\n", "If-Match", tag); got.status != http.StatusOK {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	if got := s.limitOf("k"); got != 11.0 {
		t.Errorf("limit %v", got)
	}
	if got := s.put("/rules", "rules: []\n", "If-Match", tag); got.status != http.StatusPreconditionFailed {
		t.Errorf("status %d: %s", got.status, got.body)
	}
	bad := s.put("/rules", "rules:\n- {id: a, limmit: 1}\n")
	if bad.status != http.StatusBadRequest || !strings.Contains(bad.body, "did you mean limit?") {
		t.Errorf("status %d: %s", bad.status, bad.body)
	}
	if got := s.limitOf("k"); got != 11.0 {
		t.Errorf("after a mistake: limit %v", got)
	}
}

// A trial of rules has the warnings of the server beside those of the set, and is refused like
// the change itself when this server cannot apply them.
func TestTrialsHaveTheWarningsOfTheServer(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, tiered), Gateway: "127.0.0.1:0", Upstreams: echo(t)})
	const text = `rules:
  - {id: a, match: {path: /login}, by: [ip], limit: 1/s}
  - {id: b, by: ["jwt:sub"], limit: 1/s}
  - {id: c, by: [user_id], limit: 1/s}
`
	refused := "identity: [jwt:sub]\n" + text
	for name, try := range map[string]func(rules string) answer{
		"validate": func(rules string) answer { return s.post("admin", "/rules/validate", rules) },
		"dry run":  func(rules string) answer { return s.put("/rules?dry_run=true", rules) },
	} {
		got := try(text)
		for _, want := range []string{"rule a fails open while the store is down", "the server verifies no tokens", cannotApply} {
			if got.status != http.StatusOK || !strings.Contains(got.body, want) {
				t.Errorf("%s: status %d, no %q in %s", name, got.status, want, got.body)
			}
		}
		if got := try(refused); got.status != http.StatusBadRequest || !strings.Contains(got.body, "no key verifies tokens") {
			t.Errorf("%s: status %d: %s", name, got.status, got.body)
		}
	}
}

func TestChangesOfRulesNeedTheToken(t *testing.T) {
	s := run(t, Config{AdminToken: "secret"})
	if got := s.put("/rules/default", `{"limit":7,"window":60}`); got.status != http.StatusUnauthorized {
		t.Errorf("status %d: %s", got.status, got.body)
	}
	if got := s.put("/rules/default", `{"limit":7,"window":60}`, "Authorization", "Bearer secret"); got.status != http.StatusOK {
		t.Errorf("status %d: %s", got.status, got.body)
	}
	if strings.Contains(s.logs.String(), "secret") {
		t.Error("the log repeats the token")
	}
}

// Every surface of the check API adds its requests to the sample on which changes are tried.
func TestASetIsTriedOnTheTrafficOfThisServer(t *testing.T) {
	const wide = "rules: [{id: r, by: [api_key], limit: 1000, window: 60}]\n"
	s := run(t, Config{Rules: rulesFile(t, wide), MostDenied: 0.05})
	for range 10 {
		s.post("http", "/v1/batch", `{"items":[`+strings.Repeat(`{"attributes":{"api_key":"sk_live_customer"}},`, 9)+`{"attributes":{"api_key":"sk_live_customer"}}]}`)
		s.post("http", "/v1/check", `{"attributes":{"api_key":"sk_live_customer"}}`)
		s.get("http", "/v1/auth/x", "X-API-Key", "sk_live_customer")
	}
	got := s.put("/rules", strings.Replace(wide, "1000", "60", 1))
	if got.status != http.StatusConflict || !strings.Contains(got.body, `"allowed":120,"denied":60,"share":0.5`) {
		t.Errorf("status %d: %s", got.status, got.body)
	}
	if got := s.put("/rules?force=true", strings.Replace(wide, "1000", "60", 1)); got.status != http.StatusOK {
		t.Errorf("status %d: %s", got.status, got.body)
	}
	if strings.Contains(s.logs.String()+got.body, "customer") {
		t.Error("a key is shown whole")
	}
}

func TestAdminTokensAreReadAgain(t *testing.T) {
	line := func(name, role, token string) string {
		sum := sha256.Sum256([]byte(token))
		return name + " " + role + " " + hex.EncodeToString(sum[:]) + "\n"
	}
	file := filepath.Join(t.TempDir(), "tokens")
	writeFile(t, file, line("vera", "viewer", "v"))
	s := run(t, Config{AdminTokens: file})
	status := func(path, token string) int {
		t.Helper()
		return s.get("admin", path, "Authorization", "Bearer "+token).status
	}
	for _, path := range []string{"/metrics", "/rules"} {
		if got := []int{status(path, ""), status(path, "x"), status(path, "v")}; got[0] != 401 || got[1] != 401 || got[2] != 200 {
			t.Errorf("%s: %v", path, got)
		}
	}
	if got := s.put("/rules/default", `{"limit":7,"window":60}`, "Authorization", "Bearer v"); got.status != http.StatusForbidden {
		t.Errorf("a viewer changes rules: status %d", got.status)
	}
	writeFile(t, file, line("olga", "operator", "o"))
	s.Reload()
	if status("/rules", "v") != 401 || status("/rules", "o") != 200 {
		t.Error("the tokens are the old ones")
	}
	writeFile(t, file, "olga operator\n")
	s.Reload()
	s.logs.wait(t, "secret file rejected")
	if status("/rules", "o") != 200 {
		t.Error("a mistake has locked everyone out")
	}
	if _, err := New(Config{Store: failing{}, AdminTokens: file}); err == nil || !strings.Contains(err.Error(), ":1:1: the line has 2 words") {
		t.Error(err)
	}
}
