package rule_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

const ofStores = `tiers:
  pro: {api_key_pattern: "pro_*", limit: 9/m}
defaults: {limit: 5/m}
rules:
  - {id: plain}
  - {id: named, store: default}
  - id: sure
    store: critical
    override: {vip: {limit: 7/m}}
    penalty: {after: 2}
    on_store_failure: {local: {limit: 1/s}}
  - {id: off, store: audit, mode: off}
`

func parsed(t *testing.T, text string) *rule.Set {
	t.Helper()
	set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// Every limit of a rule has its store, those of tiers and overrides too. Those of penalties
// have the default store.
func TestLimitsHaveTheStoreOfTheirRule(t *testing.T) {
	set := parsed(t, ofStores)
	for id, want := range map[string]string{"plain": "", "named": "", "sure": "critical", "off": "audit"} {
		r := set.Rule(id)
		if r.Store != want {
			t.Errorf("%s: store %q", id, r.Store)
		}
		limits := 0
		for _, e := range r.Effective(set) {
			for _, l := range e.Limits {
				if limits++; l.Store() != want {
					t.Errorf("%s: tier %q, override %q: store %q", id, e.Tier, e.Override, l.Store())
				}
			}
		}
		if limits < 2 {
			t.Errorf("%s: %d limits", id, limits)
		}
	}
	for _, key := range []string{"k", "vip", "pro_1"} {
		claims, err := set.RuleClaims(set.Rule("sure"), rule.Map{"api_key": key}, 1)
		if err != nil || len(claims) != 4 {
			t.Fatal(claims, err)
		}
		for i, c := range claims {
			if want := map[bool]string{true: "critical", false: ""}[i == 0]; c.Limit.Store() != want {
				t.Errorf("%s: limit %s has store %q, want %q", key, c.Limit.Name(), c.Limit.Store(), want)
			}
		}
	}
	o, err := set.Decide(t.Context(), stint.NewMemory(stint.MemoryOptions{}), rule.Map{"api_key": "k"}, 1)
	if err != nil || !o.Allowed() {
		t.Error("a store that does not route:", err, o)
	}
}

func TestUnknownStoresAreFoundWithTheirPosition(t *testing.T) {
	set := parsed(t, ofStores)
	for _, s := range []*rule.Set{set, set.WithPathEncoding(rule.PathKeep)} {
		if problems := s.CheckStores("audit", "critical"); problems != nil {
			t.Error(problems)
		}
		got := s.CheckStores("audit").Error()
		if want := `rules.yaml:8:12: store: there is no store "critical" (name one of default, audit, or start the server with --store critical=URL)`; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		if problems := s.CheckStores(); len(problems) != 2 {
			t.Error(problems)
		}
	}
}

func TestNamesOfStores(t *testing.T) {
	for _, name := range []string{"Critical", "1st", "-a", "a_b", "a.b", "a/b", `"a\u0000"`, `"a b"`, "é", strings.Repeat("a", 33)} {
		_, err := rule.Parse(rule.File{Name: "r.yaml", Data: []byte("rules:\n  - {id: a, limit: 1/s, store: " + name + "}\n")})
		if err == nil || !strings.Contains(err.Error(), "r.yaml:2:") || !strings.Contains(err.Error(), "is not the name of a store") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if set := parsed(t, "rules:\n  - {id: a, limit: 1/s, store: "+strings.Repeat("a", 32)+"}\n"); len(set.CheckStores()) != 1 {
		t.Error("a name of 32 bytes")
	}
}

// In a canary, a rule whose counts callers share keeps its store, because it keeps its limits.
func TestCanaryMovesOnlyRulesThatCountEachCallerAlone(t *testing.T) {
	const old = "rules:\n  - {id: own, by: [api_key], limit: 1/s}\n  - {id: shared, by: [path], limit: 1/s}\n"
	next := strings.ReplaceAll(old, "limit: 1/s", "limit: 1/s, store: critical")
	canary, kept, err := parsed(t, old).Canary(parsed(t, next), "api_key")
	if err != nil || !slices.Equal(kept, []string{"shared"}) {
		t.Fatal(kept, err)
	}
	if own, shared := canary.Rule("own"), canary.Rule("shared"); own.Store != "critical" || shared.Store != "" {
		t.Errorf("own is in %q, shared in %q", own.Store, shared.Store)
	}
}
