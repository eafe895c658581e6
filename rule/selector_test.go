package rule

import (
	"context"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// at64 is a request that arrived at a given time.
type at64 struct {
	Map

	t int64
}

func (a at64) At() int64 { return a.t }

func TestEntriesAndOverridesEnd(t *testing.T) {
	s, err := Parse(File{"rules.yaml", []byte(`
deny:
  - {match: "sk_banned", until: 2026-01-02T00:00:00Z, reason: "tried passwords"}
  - {match: "sk_banned", until: 2026-01-03T00:00:00Z}
  - {match: "sk_b*", until: 2026-01-01T12:00:00+00:00}
  - {match: 10.0.0.0/8, until: 2026-01-02T00:00:00Z}
  - {match: 10.1.0.0/16, until: 2026-01-01T00:00:01Z}
allow: [{match: sk_free, until: 2026-01-02T00:00:00Z}, sk_always]
rules:
  - id: r
    by: [api_key]
    limit: 10
    window: 60
    override: {sk_vip: {limit: 20}}
    temporary:
      - {match: sk_vip, until: 2026-01-02T00:00:00Z, reason: "a sale", limit: 30}
      - {match: "sk_v*", until: 2026-01-03T00:00:00Z, limit: 40}
`)})
	if err != nil {
		t.Fatal(err)
	}
	day := func(d, h int) int64 { return time.Date(2026, 1, d, h, 0, 0, 0, time.UTC).UnixMicro() }
	for _, test := range []struct {
		when   int64
		who    Map
		list   List
		limit  int64
		reason string
	}{
		{day(1, 0), Map{"api_key": "sk_banned"}, ListDeny, 0, "banned"},
		{day(3, 0) - 1, Map{"api_key": "sk_banned"}, ListDeny, 0, "the later end of two counts"},
		{day(3, 0), Map{"api_key": "sk_banned"}, ListNone, 10, "at its end it has ended"},
		{day(1, 11), Map{"api_key": "sk_bx"}, ListDeny, 0, "by pattern"},
		{day(1, 12), Map{"api_key": "sk_bx"}, ListNone, 10, "the pattern has ended"},
		{day(1, 1), Map{"ip": "10.1.2.3"}, ListDeny, 0, "the smaller network has ended, the larger not"},
		{day(2, 0), Map{"ip": "10.1.2.3"}, ListNone, 10, "both have"},
		{day(1, 0), Map{"api_key": "sk_free"}, ListAllow, 0, "free"},
		{day(2, 0), Map{"api_key": "sk_free"}, ListNone, 10, "free no more"},
		{day(2, 0), Map{"api_key": "sk_always"}, ListAllow, 0, "for good"},
		{day(1, 0), Map{"api_key": "sk_vip"}, ListNone, 30, "temporary before override"},
		{day(2, 0), Map{"api_key": "sk_vip"}, ListNone, 40, "a pattern that lasts before one for good"},
		{day(3, 0), Map{"api_key": "sk_vip"}, ListNone, 20, "back to the override"},
	} {
		o, err := s.Decide(context.Background(), stint.NewMemory(stint.MemoryOptions{}), at64{test.who, test.when}, 0)
		if err != nil || o.List != test.list || o.Decision.Limit != test.limit {
			t.Errorf("%s: list %v, limit %d, %v", test.reason, o.List, o.Decision.Limit, err)
		}
	}
}

// TestEveryDecisionSaysWhen also covers rules that deny without asking a store.
func TestEveryDecisionSaysWhen(t *testing.T) {
	const when = 1_700_000_000_000_001
	for _, text := range []string{"{id: shut, by: [api_key], deny_all: true}", "{id: named, by: [user], missing: deny, limit: 1/s}"} {
		s := mustParse(t, "rules: ["+text+"]")
		o, err := s.Decide(t.Context(), stint.NewMemory(stint.MemoryOptions{}), at64{Map{"api_key": "a"}, when}, 1)
		if err != nil || o.Decision.Allowed || o.Decision.At != when || o.Hits[0].Decision.At != when {
			t.Errorf("%s: decided at %d, its hit at %d, %v", text, o.Decision.At, o.Hits[0].Decision.At, err)
		}
		before := time.Now().UnixMicro()
		if o, err = s.Decide(t.Context(), stint.NewMemory(stint.MemoryOptions{}), Map{"api_key": "a"}, 1); err != nil || o.Decision.At < before {
			t.Errorf("%s: decided at %d by the clock, which was %d before; %v", text, o.Decision.At, before, err)
		}
	}
}

func TestTheClockDecidesForRequestsWithoutATime(t *testing.T) {
	s, err := Parse(File{"rules.yaml", []byte("deny: [{match: old, until: 2001-01-01T00:00:00Z}, {match: new, until: 2199-01-01T00:00:00Z}]\n")})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]List{"old": ListNone, "new": ListDeny} {
		if o, err := s.Decide(context.Background(), stint.NewMemory(stint.MemoryOptions{}), Map{"api_key": key}, 1); err != nil || o.List != want {
			t.Errorf("%s: %v, %v", key, o.List, err)
		}
	}
}

func TestMistakesOfEntries(t *testing.T) {
	for text, want := range map[string]string{
		"deny: [{until: 2026-01-02T00:00:00Z}]":            "f.yaml:1:8: an entry of a list has no match (give it match: a key, a pattern, an address or a network)",
		"deny: [{match: x, until: tomorrow}]":              "f.yaml:1:26: until: \"tomorrow\" is not a time (write it as 2026-01-31T12:00:00Z)",
		"deny: [{match: x, untils: 2026-01-02T00:00:00Z}]": "f.yaml:1:19: an entry of a list has no key \"untils\" (did you mean until?)",
		"deny: ['?*?']": "f.yaml:1:8: \"?*?\" on the deny list would deny everyone (name fewer, or write a rule with deny_all: true)",
		"deny: [{match: '*', until: 2026-01-02T00:00:00Z}]":                 "f.yaml:1:16: \"*\" on the deny list would deny everyone (name fewer, or write a rule with deny_all: true)",
		"rules: [{id: r, limit: 1/s, temporary: [{limit: 2/s}]}]":           "f.yaml:1:41: a temporary override has no match (give it match: a key, a pattern, an address or a network)",
		"rules: [{id: r, limit: 1/s, temporary: [{match: x, limit: 2/s}]}]": "f.yaml:1:41: a temporary override has no end (give it until: 2026-01-31T12:00:00Z, or write it under override)",
	} {
		if _, err := Parse(File{"f.yaml", []byte(text)}); err == nil || err.Error() != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestEntriesThatEndCostNothingWhileNothingFits(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	s, err := Parse(File{"rules.yaml", []byte("deny: [{match: x, until: 2199-01-01T00:00:00Z}]\nrules: [{id: r, limit: 1000000/s}]\n")})
	if err != nil {
		t.Fatal(err)
	}
	store, request, o := stint.NewMemory(stint.MemoryOptions{}), Map{"api_key": "k"}, Outcome{}
	if n := testing.AllocsPerRun(100, func() { _ = s.DecideInto(context.Background(), store, request, 1, &o) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
