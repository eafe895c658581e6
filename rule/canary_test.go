package rule

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stintdev/stint"
)

const beforeCanary = `
tiers:
  free: {api_key_pattern: "free_*", limit: 10, window: 60}
  pro:  {api_key_pattern: "pro_*", limit: 100, window: 60}
rules:
  - {id: own, by: [api_key], limit: 10, window: 60}
  - {id: path, by: [path], limit: 20, window: 60, override: {"/a": {limit: 7}}, penalty: {after: 3, window: 1m, cool_down: 1m}}
  - {id: ip, by: [ip], limit: 30, window: 60}
  - {id: tiered, by: [host]}
  - {id: keyless, by: [api_key], missing: shared, limit: 40, window: 60}
  - {id: moved, by: [path], limit: 50, window: 60}
  - {id: same, by: [path], limit: 60, window: 60}
`

const afterCanary = `
tiers:
  gold: {api_key_pattern: "gold_*", limit: 500, window: 60}
  pro:  {api_key_pattern: "pro_*", limit: 200, window: 60}
  free: {api_key_pattern: "free_*", limit: 20, window: 60}
rules:
  - {id: own, by: [api_key], limit: 1, window: 60}
  - {id: path, by: [path], limit: 2, window: 60, penalty: {after: 5, window: 1m, cool_down: 2m}}
  - {id: ip, by: [ip], limit: 3, window: 60}
  - {id: tiered, by: [host]}
  - {id: keyless, by: [api_key], missing: shared, limit: 4, window: 60}
  - {id: moved, by: [host], limit: 5, window: 60}
  - {id: same, by: [path], limit: 60, window: 60, mode: shadow}
  - {id: new, by: [path], limit: 6, window: 60}
`

// limitsIn returns the greatest cost of each limit that a request meets.
func limitsIn(t *testing.T, s *Set, a Map) map[string]int64 {
	t.Helper()
	found := map[string]int64{}
	for _, r := range s.Rules() {
		claims, err := s.RuleClaims(r, a, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range claims[:min(len(claims), 1)] {
			found[r.ID] = c.Limit.Max()
		}
	}
	return found
}

// A rule whose counts callers of both sides share keeps its old numbers; all others have the new.
func TestACanaryKeepsTheLimitsOfSharedCounts(t *testing.T) {
	control, next := mustParse(t, beforeCanary), mustParse(t, afterCanary)
	if by := control.SplitBy(next); by != "api_key" {
		t.Fatal(by)
	}
	canary, kept, err := control.Canary(next, "api_key")
	if want := []string{"path", "ip", "tiered", "keyless"}; err != nil || !slices.Equal(kept, want) {
		t.Fatalf("%v, %v, want %v", kept, err, want)
	}
	for key, tiered := range map[string]int64{"free_1": 10, "pro_1": 100, "gold_1": 0, "other": 0} {
		got := limitsIn(t, canary, Map{"api_key": key, "ip": "10.0.0.1", "path": "/a", "host": "h"})
		want := map[string]int64{"own": 1, "path": 7, "ip": 30, "keyless": 40, "moved": 5, "same": 60, "new": 6}
		if tiered > 0 {
			want["tiered"] = tiered
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
	if canary.Rule("path").Penalty != control.Rule("path").Penalty || canary.Rule("same").Mode != Shadow {
		t.Error("the penalty is not the old one, or the mode not the new one")
	}
	if next.Rule("path").byTier[0][0].Max() != 2 {
		t.Error("the set itself has changed")
	}
	m := stint.NewMemory(stint.MemoryOptions{})
	if o, err := canary.Decide(t.Context(), m, Map{"api_key": "k", "ip": "10.0.0.1", "path": "/a", "host": "h"}, 1); err != nil || len(o.Hits) < 6 {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestACanaryByAddressKeepsOtherRules(t *testing.T) {
	control := mustParse(t, "rules: [{id: a, by: [ip], limit: 1, window: 60}, {id: b, by: [path], limit: 1, window: 60}]")
	next := mustParse(t, "rules: [{id: a, by: [ip], limit: 2, window: 60}, {id: b, by: [path], limit: 2, window: 60}]")
	if by := control.SplitBy(next); by != "ip" {
		t.Fatal(by)
	}
	if _, kept, err := control.Canary(next, "ip"); err != nil || !slices.Equal(kept, []string{"b"}) {
		t.Errorf("%v, %v", kept, err)
	}
	keyed := mustParse(t, "rules: [{id: a, limit: 1, window: 60}]")
	matching := mustParse(t, `rules: [{id: a, by: [ip], match: {api_key_pattern: "x*"}, limit: 1, window: 60}]`)
	if control.SplitBy(keyed) != "api_key" || keyed.SplitBy(next) != "api_key" || control.SplitBy(matching) != "api_key" {
		t.Error("rules read the API key, and callers are split by their address")
	}
}

func TestACanaryChangesNoIdentity(t *testing.T) {
	plain := mustParse(t, "rules: [{id: a, limit: 1, window: 60}]")
	for text, want := range map[string]string{
		"ipv6_prefix: 48\nrules: [{id: a, limit: 1, window: 60}]":          "ipv6_prefix",
		"identity: [header:X-Key]\nrules: [{id: a, limit: 1, window: 60}]": "identity",
	} {
		if _, _, err := plain.Canary(mustParse(t, text), "api_key"); err == nil || !strings.HasPrefix(err.Error(), want+": ") {
			t.Errorf("%v, want a mistake of %s", err, want)
		}
	}
}

func TestCallerIsCountedAsRulesCountIt(t *testing.T) {
	s := mustParse(t, "rules: []")
	for _, c := range []struct {
		by   string
		a    Map
		want string
	}{
		{"api_key", Map{"api_key": "k", "ip": "10.0.0.1"}, "k"},
		{"api_key", Map{"ip": "10.0.0.1"}, markIP + "10.0.0.1"},
		{"api_key", Map{"api_key": "", "ip": "2001:db8:1:2:3::4"}, markIP + "2001:db8:1:2::/64"},
		{"ip", Map{"api_key": "k", "ip": "10.0.0.1"}, markIP + "10.0.0.1"},
		{"api_key", Map{}, ""},
		{"api_key", Map{"ip": "nonsense"}, ""},
	} {
		if got := s.Caller(c.a, c.by); got != c.want {
			t.Errorf("%v by %s: %q", c.a, c.by, got)
		}
	}
}
