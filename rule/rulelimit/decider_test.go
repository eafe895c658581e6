package rulelimit

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/rule"
)

func parsed(t *testing.T, text string) *rule.Set {
	t.Helper()
	set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func newStore(t *testing.T) *stint.Memory {
	t.Helper()
	m := stint.NewMemory(stint.MemoryOptions{MaxKeys: 1000})
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func newTest(t *testing.T, text string, o Options) *Decider {
	t.Helper()
	d, err := New(parsed(t, text), newStore(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// get sends a request through the middleware; header is names and values in turn.
func get(d *Decider, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, target, http.NoBody)
	for ; len(header) > 0; header = header[2:] {
		r.Header.Set(header[0], header[1])
	}
	m, err := d.Middleware(httplimit.Options{})
	if err != nil {
		panic(err)
	}
	w := httptest.NewRecorder()
	m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
	return w
}

func statuses(d *Decider, n int, target string, header ...string) (list []int) {
	for range n {
		list = append(list, get(d, target, header...).Code)
	}
	return list
}

const tiers = `
defaults: {limit: 2, window: 1h}
tiers:
  free: {api_key_pattern: "free_*", limit: 1, window: 1h}
  gold: {api_key_pattern: "gold_*", limit: 3, window: 1h}
rules:
  - {id: api, match: {path_prefix: /v1}, headers: x-ratelimit, retry_jitter: 0.5}
  - {id: tried, mode: shadow, by: [ip], limit: 1, window: 1h}
  - {id: units, match: {path: /units}, cost: header:x-units, limit: 10, window: 1h}
  - {id: closed, match: {path: /closed}, deny_all: true, limit: 1/s}
whitelist: [10.0.0.0/8, "staff_*"]
blacklist: [192.168.0.0/16, "bad_*"]
`

func TestRulesDecideRequests(t *testing.T) {
	d := newTest(t, tiers, Options{})
	for _, c := range []struct {
		name, target string
		header       []string
		want         []int
	}{
		{"a tier", "/v1/a", []string{"X-API-Key", "free_1"}, []int{200, 429, 429, 429}},
		{"another tier", "/v1/a", []string{"Authorization", "Bearer gold_1"}, []int{200, 200, 200, 429}},
		{"no tier", "/v1/a", []string{"X-API-Key", "other"}, []int{200, 200, 429, 429}},
		{"no rule", "/other", []string{"X-API-Key", "other"}, []int{200, 200, 200, 200}},
		{"allow list", "/v1/a", []string{"X-API-Key", "staff_1"}, []int{200, 200, 200, 200}},
		{"deny list", "/v1/a", []string{"X-API-Key", "bad_1"}, []int{403, 403, 403, 403}},
		{"cost of the request", "/units", []string{"X-API-Key", "k", "X-Units", "4"}, []int{200, 200, 429, 429}},
		{"invalid cost", "/units", []string{"X-API-Key", "k", "X-Units", "four"}, []int{400, 400, 400, 400}},
		{"denied by a rule", "/closed", nil, []int{429, 429, 429, 429}},
		{"ambiguous path", "/v1/..;/../b", nil, []int{400, 400, 400, 400}},
	} {
		if got := statuses(d, 4, c.target, c.header...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	w := get(d, "/v1/a", "X-API-Key", "free_1")
	if w.Header().Get("X-RateLimit-Limit") != "1" || w.Header().Get("RateLimit") != "" || w.Header().Get("Retry-After") == "" {
		t.Errorf("%v: the dialect is not that of the rule", w.Header())
	}
}

func TestDryAndShadowOutcomesAreObserved(t *testing.T) {
	var denied int
	d := newTest(t, "rules: [{id: tried, mode: shadow, by: [ip], limit: 1, window: 1h}]", Options{
		Observe: func(_ *httplimit.Request, cost int64, o *rule.Outcome) {
			if cost == 1 && len(o.Hits) == 1 && o.Hits[0].Shadow && !o.Hits[0].Decision.Allowed {
				denied++
			}
		},
	})
	if got := statuses(d, 3, "/"); !slices.Equal(got, []int{200, 200, 200}) || denied != 2 {
		t.Errorf("%v, %d denials in shadow", got, denied)
	}
}

func TestAttributesOfTheProgram(t *testing.T) {
	plans := map[string]string{"k1": "gold"}
	d := newTest(t, `
defaults: {limit: 1, window: 1h}
tiers: {gold: {limit: 3, window: 1h}}
rules:
  - {id: a, by: [user_id], missing: deny, match: {headers: {x-kind: "b*"}}}
`, Options{
		Attributes: map[string]func(*http.Request) string{
			"tier":          func(r *http.Request) string { return plans[r.Header.Get("X-Api-Key")] },
			"user_id":       func(r *http.Request) string { return r.Header.Get("X-Api-Key") },
			"header:X-Kind": func(*http.Request) string { return "bots" },
		},
		Cost: func(r *http.Request) int64 { return int64(len(r.URL.Path)) },
	})
	for key, want := range map[string][]int{"k1": {200, 200, 200, 429}, "k2": {200, 429, 429, 429}, "": {429, 429, 429, 429}} {
		if got := statuses(d, 4, "/", "X-API-Key", key); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", key, got, want)
		}
	}
	if got := statuses(d, 2, "/aa", "X-API-Key", "k3"); !slices.Equal(got, []int{429, 429}) {
		t.Errorf("a cost of 3 under a limit of 1: %v", got)
	}
}

func TestRulesThatWouldNotLimitAreRefused(t *testing.T) {
	for rules, want := range map[string]string{
		"rules: [{id: a, by: [user], limit: 1/s}]":                  `rules.yaml:1:22: "user" is no attribute of a request`,
		"rules: [{id: a, by: [pai_key], limit: 1/s}]":               `did you mean "api_key"?`,
		"rules: [{id: a, by: [tenant_ip], limit: 1/s}]":             `did you mean "tenant_id"?`,
		"rules: [{id: a, by: [\"jwt:sub\"], limit: 1/s}]":           `"jwt:sub": no token can be verified (set Tokens in Options.Identity)`,
		"rules: [{id: a, by: [\"heder:x-a\"], limit: 1/s}]":         `did you mean "header:x-a"?`,
		"rules: [{id: a, by: [\"cookie:a b\"], limit: 1/s}]":        `no cookie can have the name "a b"`,
		"rules: [{id: a, by: [\"header:trailer\"], limit: 1/s}]":    `"header:trailer": no request has that header`,
		"rules: [{id: a, cost: units, limit: 1/s}]":                 `"units" is no attribute`,
		"tiers: {gold: {limit: 1/s}}\nrules: [{id: a, limit: 1/s}]": `rules.yaml:1:9: no request has the attribute "tier"`,
		"rules: [{id: a, limit: 2/s, penalty: {after: 5}}]":         `rule a: only the server applies a penalty`,
	} {
		own := map[string]func(*http.Request) string{"tenant_id": func(*http.Request) string { return "" }}
		set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte(rules)})
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err = New(set, newStore(t), Options{Attributes: own}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", rules, err, want)
		}
		var log strings.Builder
		d, err := New(set, newStore(t), Options{Attributes: own, AllowUnsupported: true, Logger: logTo(&log)})
		if err != nil || !strings.Contains(unquoted(log.String()), want) {
			t.Errorf("%s, allowed: %v, %s", rules, err, log.String())
			continue
		}
		if got := get(d, "/").Code; got != http.StatusOK {
			t.Errorf("%s, allowed: %d", rules, got)
		}
	}
}

// issuer verifies every token, which is its claim "sub".
type issuer struct{}

func (issuer) VerifyToken(_ context.Context, token string) (map[string]any, error) {
	return map[string]any{"sub": token}, nil
}

func TestClaimsNeedTokensInTheMiddlewareToo(t *testing.T) {
	d := newTest(t, "rules: [{id: a, by: [\"jwt:sub\"], limit: 1, window: 1h}]", Options{Identity: httplimit.Identity{Tokens: issuer{}}})
	for token, want := range map[string][]int{"ann": {200, 429}, "bob": {200, 429}} {
		if got := statuses(d, 2, "/", "Authorization", "Bearer "+token); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", token, got, want)
		}
	}
	m, err := httplimit.New(d, httplimit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	m.Wrap(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	if w.Code != http.StatusInternalServerError {
		t.Errorf("without tokens: %d", w.Code)
	}
}

func TestOptionsAndArgumentsAreChecked(t *testing.T) {
	set, store := parsed(t, "rules: [{id: a, limit: 1/s}]"), newStore(t)
	claim, err := httplimit.ParseSource("jwt:sub")
	if err != nil {
		t.Fatal(err)
	}
	for want, err := range map[string]error{
		"the rule set is nil": second(New(nil, store, Options{})),
		"no store":            second(New(set, (*stint.Memory)(nil), Options{})),
		"needs a name":        second(New(set, store, Options{Attributes: map[string]func(*http.Request) string{"a": nil}})),
		"Identity":            second(New(set, store, Options{Identity: httplimit.Identity{APIKey: []httplimit.Source{claim}}})),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// An Identity of the middleware that replaced the one of the decider, or was replaced by it,
// could drop RejectInvalidTokens without a word.
func TestMiddlewareHasTheIdentityOfTheDecider(t *testing.T) {
	strict := httplimit.Identity{Tokens: issuer{}, RejectInvalidTokens: true}
	d := newTest(t, "rules: [{id: a, limit: 1/s}]", Options{})
	for name, id := range map[string]httplimit.Identity{
		"tokens": strict, "sources": {APIKey: []httplimit.Source{}}, "proxies": {Clients: httplimit.Clients{Header: httplimit.Forwarded}},
	} {
		if _, err := d.Middleware(httplimit.Options{Identity: id}); err == nil || !strings.Contains(err.Error(), "Options of the decider") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRulesReadTheHost(t *testing.T) {
	d := newTest(t, "rules: [{id: a, match: {headers: {host: b.example}}, limit: 1, window: 1h}]", Options{})
	for target, want := range map[string][]int{"http://b.example/": {200, 429}, "http://c.example/": {200, 200}} {
		if got := statuses(d, 2, target); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", target, got, want)
		}
	}
}

func TestDeciderThatWasNotMade(t *testing.T) {
	for name, d := range map[string]*Decider{"nil": nil, "zero": {}} {
		request := httptest.NewRequest("GET", "/", nil)
		_, err := d.Decide(t.Context(), httplimit.NewRequest(request, nil))
		for _, err := range []error{err, d.Use(parsed(t, "rules: [{id: a, limit: 1/s}]"))} {
			if err == nil || !strings.Contains(err.Error(), "nil or a zero value") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if s := d.Status(); s.Set != nil || s.Number != 0 {
			t.Errorf("%s: %+v", name, s)
		}
		if _, err := d.Middleware(httplimit.Options{}); err == nil {
			t.Errorf("%s: it has a middleware", name)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// closed is a store that has been closed.
type closed struct{ stint.Store }

func (closed) Take(context.Context, stint.Claim) (stint.Decision, error) {
	return stint.Decision{}, &stint.Error{Code: stint.CodeUnavailable, Problem: "the store is closed"}
}

func TestErrorsOfTheStoreAreErrors(t *testing.T) {
	d, err := New(parsed(t, "rules: [{id: a, limit: 1/s}]"), closed{newStore(t)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Decide(t.Context(), httplimit.NewRequest(httptest.NewRequest("GET", "/", nil), nil))
	if failed, ok := errors.AsType[*stint.Error](err); !ok || failed.Code != stint.CodeUnavailable {
		t.Errorf("%v", err)
	}
	if got := get(d, "/"); got.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", got.Code, got.Body)
	}
}

// unavailable is a store whose decisions are those of a rule that fails closed.
type unavailable struct{ stint.Store }

func (unavailable) Take(context.Context, stint.Claim) (stint.Decision, error) {
	return stint.Decision{Degraded: true, Unavailable: true, RetryAfter: time.Second}, nil
}

func TestAClosedRuleAnswers503(t *testing.T) {
	d, err := New(parsed(t, "rules: [{id: a, limit: 1/s, on_store_failure: closed}]"), unavailable{newStore(t)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := get(d, "/"); got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %v", got.Code, got.Header())
	}
}

func TestALeakyBucketDelaysWithinTheDeadline(t *testing.T) {
	d := newTest(t, "rules: [{id: a, algorithm: leaky_bucket, limit: 1, window: 10s, queue: 5}]", Options{})
	r := httplimit.NewRequest(httptest.NewRequest("GET", "/", nil), nil)
	hurried, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for i, want := range []bool{true, false, false} {
		if a, err := d.Decide(hurried, r); err != nil || a.Allowed() != want || a.Decision.Delay > 0 {
			t.Errorf("%d: %+v, %v", i, a.Decision, err)
		}
	}
	if a, err := d.Decide(t.Context(), r); err != nil || !a.Allowed() || a.Decision.Delay <= 5*time.Second {
		t.Errorf("%+v, %v", a.Decision, err)
	}
}

func TestUseKeepsCountsAndTheOldSetAfterAnError(t *testing.T) {
	d := newTest(t, "version: one\nrules: [{id: a, limit: 2, window: 1h}]", Options{})
	_ = get(d, "/")
	if err := d.Use(parsed(t, "version: two\nrules: [{id: a, by: [user_id], limit: 9, window: 1h}]")); err == nil {
		t.Error("used")
	}
	if s := d.Status(); s.Number != 1 || s.Set.Version() != "one" || s.Err == nil || s.Since.IsZero() {
		t.Errorf("%+v", s)
	}
	if err := d.Use(parsed(t, "version: three\nrules: [{id: a, limit: 3, window: 1h}]")); err != nil {
		t.Fatal(err)
	}
	if s := d.Status(); s.Number != 2 || s.Set.Version() != "three" || s.Err != nil {
		t.Errorf("%+v", s)
	}
	if got := statuses(d, 3, "/"); !slices.Equal(got, []int{200, 429, 429}) {
		t.Errorf("%v: a change of a limit gives no fresh tokens", got)
	}
}

// Requests that run while the rules change are all decided by one of the sets.
func TestDecisionsDuringChanges(t *testing.T) {
	d := newTest(t, "rules: [{id: a, limit: 1000000, window: 1h}]", Options{})
	sets := []*rule.Set{parsed(t, "rules: [{id: b, limit: 1000000, window: 1h}]"), parsed(t, "rules: [{id: a, limit: 1000000, window: 1h}, {id: c, limit: 1000000, window: 1h}]")}
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for range 300 {
				a, err := d.Decide(t.Context(), httplimit.NewRequest(httptest.NewRequest("GET", "/", nil), nil))
				if err != nil || !a.Allowed() || len(a.Policies) == 0 || len(a.Policies) > 2 {
					t.Errorf("%+v, %v", a, err)
				}
			}
		})
	}
	running.Go(func() {
		for i := range 100 {
			if err := d.Use(sets[i%2]); err != nil {
				t.Error(err)
			}
		}
	})
	running.Wait()
	if n := d.Status().Number; n != 101 {
		t.Errorf("%d sets were in force, want 101", n)
	}
}

// The rule files and the middleware each have a list of dialects, and neither imports
// the other.
func TestEveryDialectOfRuleFilesIsKnown(t *testing.T) {
	for d := httplimit.Standard; d <= httplimit.None; d++ {
		set := parsed(t, "rules: [{id: a, limit: 1/s, headers: "+d.String()+"}]")
		if got := answerOf(&rule.Outcome{Hits: []rule.Hit{{Rule: set.Rules()[0], Shadow: true}}}).Dialect; got != d {
			t.Errorf("%v is understood as %v", d, got)
		}
	}
	_, err := rule.Parse(rule.File{Name: "a.yaml", Data: []byte("rules: [{id: a, limit: 1/s, headers: zzz}]")})
	if err == nil || strings.Count(err.Error(), ",") != int(httplimit.None) {
		t.Errorf("rule files know others too: %v", err)
	}
}
