package replay

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const comparedRules = `
rules:
  - {id: by-ip, by: [ip], limit: 3, window: 60, algorithm: fixed_window}
  - {id: old, match: {path: /x}, by: [api_key], limit: 1, window: 60, algorithm: fixed_window}
`

const otherRules = `
deny: ["192.0.2.7"]
rules:
  - {id: by-ip, by: [ip], limit: 4, window: 60, algorithm: fixed_window}
  - {id: new, match: {path: /y}, by: [api_key], limit: 1, window: 60, algorithm: fixed_window}
`

// A comparison counts what two separate replays decide differently.
func TestComparisonEqualsTwoReplays(t *testing.T) {
	var events strings.Builder
	for i := range 200 {
		fmt.Fprintf(&events, `{"t_us":%d,"ip":"192.0.2.%d","api_key":"k%d","path":"/%c"}`+"\n", i*1_000_000, i*i%9, i%3, 'x'+rune(i%2))
	}
	o := Options{Rules: ruleSet(t, comparedRules), Against: ruleSet(t, otherRules), AgainstName: "other"}
	lines, s := replayed(t, o, inputsOf(events.String())...)
	other, then := replayed(t, Options{Rules: o.Against}, inputsOf(events.String())...)

	want := map[string]*RuleChange{}
	for _, id := range []string{"by-ip", "old", "new", ""} {
		want[id] = &RuleChange{Rule: id}
	}
	var newlyDenied, newlyAllowed int64
	before, after := readDecided(t, lines), readDecided(t, other)
	for i, b := range before {
		a := after[i]
		if !b.Allowed {
			want[b.Rule].Before++
		}
		if !a.Allowed {
			want[a.Rule].After++
		}
		if b.Allowed && !a.Allowed {
			newlyDenied++
			want[a.Rule].NewlyDenied++
		}
		if !b.Allowed && a.Allowed {
			newlyAllowed++
			want[b.Rule].NewlyAllowed++
		}
	}
	c := s.Compare
	if c.NewlyDenied != newlyDenied || c.NewlyAllowed != newlyAllowed || newlyDenied == 0 || newlyAllowed == 0 || c.Denied != then.Denied || c.Allowed != then.Allowed || c.With != "other" {
		t.Errorf("got %+v, want %d newly denied and %d newly allowed", c, newlyDenied, newlyAllowed)
	}
	for _, got := range c.PerRule {
		if sum(got.BeforeOverTime) != got.Before || sum(got.AfterOverTime) != got.After {
			t.Errorf("rule %q over time: %v and %v, of %d and %d", got.Rule, got.BeforeOverTime, got.AfterOverTime, got.Before, got.After)
		}
		got.BeforeOverTime, got.AfterOverTime = nil, nil
		if !reflect.DeepEqual(&got, want[got.Rule]) {
			t.Errorf("got %+v, want %+v", got, *want[got.Rule])
		}
	}
	if len(c.PerRule) != len(want) {
		t.Errorf("%d rules, want %d", len(c.PerRule), len(want))
	}
	if sum(c.DeniedOverTime) != c.Denied || sum(c.NewlyDeniedOverTime) != newlyDenied || sum(c.NewlyAllowedOverTime) != newlyAllowed || len(c.NewlyDeniedOverTime) != len(s.OverTime.Events) {
		t.Errorf("over time %v and %v", c.NewlyDeniedOverTime, c.NewlyAllowedOverTime)
	}
	for _, one := range s.PerRule {
		if sum(one.EventsOverTime) != one.Events || sum(one.DeniedOverTime) != one.Denied {
			t.Errorf("rule %q over time: %v and %v, of %d and %d", one.Rule, one.EventsOverTime, one.DeniedOverTime, one.Events, one.Denied)
		}
	}
	if sum(s.OverTime.Denied) != s.Denied || sum(s.OverTime.Events) != s.Events {
		t.Errorf("over time %+v", s.OverTime)
	}
	var changed int64
	for _, one := range c.TopNewlyDenied {
		changed += one.Changed
	}
	if changed != newlyDenied || int64(len(c.TopNewlyDenied)) != c.CallersNewlyDenied {
		t.Errorf("the callers have %d newly denied requests, want %d: %+v", changed, newlyDenied, c.TopNewlyDenied)
	}
}

func sum(counts []int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

func TestTheSameRulesChangeNothing(t *testing.T) {
	events := strings.Repeat(request(`"path":"/v1/orders","api_key":"k1"`), 9) + request(`"path":"/v1/other","api_key":"sk_revoked_1"`)
	o := Options{Rules: ruleSet(t, severalRules), Against: ruleSet(t, severalRules)}
	_, s := replayed(t, o, inputsOf(events)...)
	if c := s.Compare; c.NewlyDenied != 0 || c.NewlyAllowed != 0 || c.Denied != s.Denied || s.Denied == 0 {
		t.Errorf("got %+v of %d denied", c, s.Denied)
	}
}

// Events that only the other rules refuse are not compared.
func TestInvalidEventsAreNotCompared(t *testing.T) {
	events := `{"t_us":1,"ip":"nonsense","api_key":"k"}` + "\n" + `{"t_us":1,"ip":"192.0.2.1","api_key":"k"}` + "\n"
	o := Options{Rules: ruleSet(t, "rules: [{id: one, by: [api_key], limit: 9/m}]"), Against: ruleSet(t, "rules: [{id: one, by: [ip], limit: 9/m}]")}
	_, s := replayed(t, o, inputsOf(events)...)
	if c := s.Compare; s.Events != 2 || c.Invalid != 1 || c.Allowed != 1 {
		t.Errorf("got %+v", c)
	}
	if !slices.Equal(s.Compare.NewlyDeniedOverTime, []int64{0}) {
		t.Errorf("got %v", s.Compare.NewlyDeniedOverTime)
	}
}

func TestOptionsOfReports(t *testing.T) {
	limit := twoASecond(t)
	limit.Against = ruleSet(t, "rules: []")
	if _, err := Run(t.Context(), limit); err == nil || !strings.Contains(err.Error(), "no rules to compare with") {
		t.Errorf("got %v", err)
	}
	long := twoASecond(t)
	long.Top = MostTop + 1
	if _, err := Run(t.Context(), long); err == nil || !strings.Contains(err.Error(), "top: 1001 is out of range") {
		t.Errorf("got %v", err)
	}
}
