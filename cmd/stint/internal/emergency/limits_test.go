package emergency

import (
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// defaults are those of a set that an emergency must not inherit.
const defaults = `
defaults: {capacity: 7, limit: 5, window: 1h}
ipv6_prefix: 48
tiers: {free: {api_key_pattern: "free_*", limit: 1, window: 1h}}
rules:
  - {id: orders, by: [api_key]}
allow: ["10.1.0.0/16"]
`

func apply(t *testing.T, by, limit string) *InForce {
	t.Helper()
	state := State{Record: Record{Revision: "r", On: true, Limit: limit, By: by, Until: time.Unix(1_700_000_000, 0)}}
	f, err := Apply(state, []rule.File{{Name: "rules.yaml", Data: []byte(defaults)}})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAnEmergencyIsARuleOfItsOwn(t *testing.T) {
	f := apply(t, "ip", "3/m")
	if got := f.Header.Get(HeaderName); got != "until=2023-11-14T22:13:20Z" {
		t.Error(got)
	}
	one := f.Set.Rule(Rule)
	for _, e := range one.Effective(f.Set) {
		for _, l := range e.Limits {
			if l.Max() != 3 || l.Window() != time.Minute || l.FromCaller() {
				t.Errorf("%+v: %v", e, l)
			}
		}
	}
	if one.Policy != (stint.Policy{Consistency: stint.Leased, OnFailure: stint.FailLocal}) || one.Penalty != nil {
		t.Errorf("%+v", one)
	}
	store := stint.NewMemory(stint.MemoryOptions{Clock: func() time.Time { return time.Unix(1_700_000_000, 0) }})
	defer store.Close()
	for _, c := range []struct {
		name       string
		attributes rule.Map
		allowed    []bool
	}{
		{"a client", rule.Map{"ip": "203.0.113.1", "api_key": "k"}, []bool{true, true, true, false}},
		{"another client", rule.Map{"ip": "203.0.113.2"}, []bool{true, true, true, false}},
		{"the allow list", rule.Map{"ip": "10.1.2.3"}, []bool{true, true, true, true}},
		{"a tier", rule.Map{"ip": "203.0.113.3", "api_key": "free_1"}, []bool{true, true, true, false}},
		{"no address", rule.Map{"api_key": "b"}, []bool{true, true}},
		{"no address either", rule.Map{"api_key": "c"}, []bool{true, false}},
	} {
		for i, want := range c.allowed {
			o, err := f.Set.Decide(t.Context(), store, c.attributes, 1)
			if err != nil || o.Allowed() != want {
				t.Errorf("%s, request %d: %+v, %v", c.name, i, o.Decision, err)
			}
		}
	}
}

func TestTakesAreCountedByTheirKeysApart(t *testing.T) {
	f := apply(t, "ip", "3/m")
	own, err := stint.Spec{Limit: 9, Window: time.Minute}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	callers, err := stint.Spec{Limit: 9, Window: time.Minute, FromCaller: true}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	byAddress, err := f.ByAttributes(rule.Map{"ip": "203.0.113.1"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	claims := []stint.Claim{byAddress}
	for _, l := range []stint.Limit{own, callers} {
		c, ok := f.Join([]stint.Claim{{Key: "203.0.113.1", Limit: l, Cost: -1}, {Key: "203.0.113.1", Limit: l, Cost: 2}})
		if !ok || c.Cost != 2 || c.Limit.FromCaller() != l.FromCaller() {
			t.Errorf("%+v", c)
		}
		claims = append(claims, c)
	}
	if err := stint.ValidateClaims(claims); err != nil {
		t.Error("the counts are shared:", err)
	}
	for name, group := range map[string][]stint.Claim{
		"a refund":      {{Key: "k", Limit: own, Cost: -1}},
		"a forget":      {{Key: "k", Limit: own, Cost: stint.Forget}},
		"none":          nil,
		"joined before": {{Key: "k", Limit: own, Cost: 1}, claims[1]},
	} {
		if c, ok := f.Join(group); ok {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if c, ok := f.Join([]stint.Claim{{Key: "k", Limit: own}}); !ok || c.Cost != 0 {
		t.Errorf("a peek: %+v %v", c, ok)
	}
	if c, err := f.ByAttributes(rule.Map{"ip": "2001:db8:1:2::1"}, 1); err != nil || c.Key != "2001:db8:1::/48" {
		t.Error(c.Key, err)
	}
}

func TestTheDefaultsOfASetDoNotReachIt(t *testing.T) {
	for _, text := range []string{
		"defaults: {algorithm: leaky_bucket, queue: 5, limit: 1, window: 1s}\nrules: []",
		"defaults: {algorithm: sliding_window_counter, buckets: 6, limit: 1, window: 1m}\nrules: []",
		"defaults: {algorithm: quota, period: 30d, anchor: \"2026-01-31T00:00:00Z\", utc_offset: \"+02:00\", limit: 1}\nrules: []",
		"defaults: {refill_rate: 1.5, burst: 9}\nrules: []",
		"defaults: {limits: [{limit: 1, window: 1s}, {limit: 2, window: 1m}]}\nrules: []",
		"defaults: {params: {limit: 1, window: 5}}\nrules: []",
		"",
	} {
		f, err := Apply(State{Record: Record{Revision: "r", On: true, Limit: "3/m", By: "ip"}}, []rule.File{{Name: "r.yaml", Data: []byte(text)}})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		limits := f.Set.Rule(Rule).Effective(f.Set)[0].Limits
		if len(limits) != 1 || limits[0].String() != "token_bucket:1m 3 per 1m, capacity 3" {
			t.Errorf("%s: %v", text, limits)
		}
	}
}

func TestTheIDIsReserved(t *testing.T) {
	set, err := rule.Parse(rule.File{Name: "r.yaml", Data: []byte("rules: [{id: emergency, limit: 1/s}]")})
	if err != nil || CheckSet(set) == nil || CheckSet(rule.Builtin()) != nil {
		t.Error(err, CheckSet(set))
	}
}
