package server

import (
	"net/http"
	"os"
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

// limitOf is the limit that a key meets.
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

func TestRulesAreChangedByWhoHasTheToken(t *testing.T) {
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

// Every surface of the check API feeds what changes are tried on.
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
