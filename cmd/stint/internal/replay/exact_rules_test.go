package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/oracle"
	"github.com/stintdev/stint/rule"
)

// exactStore decides by the exact model, at the time of an event.
type exactStore struct {
	stint.Store // nil: a replay calls nothing else

	model *oracle.Model
	event *exactEvent
}

func (s exactStore) Take(_ context.Context, c stint.Claim) (stint.Decision, error) {
	return s.model.Take(s.event.t, s.charged([]stint.Claim{c})[0]), nil
}

func (s exactStore) TakeGroups(_ context.Context, groups []stint.Group, out []stint.Decision) error {
	groups = slices.Clone(groups)
	for i := range groups {
		groups[i].Claims, groups[i].Shadows = s.charged(groups[i].Claims), slices.Clone(groups[i].Shadows)
		for j, claims := range groups[i].Shadows {
			groups[i].Shadows[j] = s.charged(claims)
		}
	}
	copy(out, s.model.TakeGroups(s.event.t, groups))
	return nil
}

// charged returns the claims as those of the event: of a refund, with costs below 0.
func (s exactStore) charged(claims []stint.Claim) []stint.Claim {
	claims = slices.Clone(claims)
	for i := range claims {
		if s.event.cost < 0 {
			claims[i].Cost, claims[i].At = -claims[i].Cost, s.event.at
		}
	}
	return claims
}

// exactEvent is an event as encoding/json reads it.
type exactEvent struct {
	rule.Map

	t, cost, at int64
}

func (e *exactEvent) At() int64 { return e.t }

func readExact(t *testing.T, line string) *exactEvent {
	t.Helper()
	in := json.NewDecoder(strings.NewReader(line))
	in.UseNumber()
	var members map[string]any
	if err := in.Decode(&members); err != nil {
		t.Fatal(err)
	}
	e := &exactEvent{Map: rule.Map{}, cost: 1}
	for name, value := range members {
		e.Map[name] = fmt.Sprint(value)
		number, _ := value.(json.Number)
		switch n, _ := number.Int64(); name {
		case "t_us":
			e.t = n
		case "cost":
			e.cost = n
		case "at_us":
			e.at = n
		}
	}
	return e
}

// exactDecisions decides events by a rule set in the exact model, in the order of a replay.
func exactDecisions(t *testing.T, set *rule.Set, text string, reorder time.Duration) (all []decided) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	var read []pending
	for i, line := range lines {
		read = append(read, pending{t: readExact(t, line).t, order: orderOf(0, int64(i+1))})
	}
	if reorder > 0 {
		read = byTheBook(read, reorder.Microseconds())
	}
	model := oracle.New()
	for _, p := range read {
		e := readExact(t, lines[p.line()-1])
		o, err := set.Decide(t.Context(), exactStore{model: model, event: e}, e, max(e.cost, -e.cost))
		if err != nil {
			t.Fatalf("%s: %v", lines[p.line()-1], err)
		}
		id, key := "", ""
		if o.Binding >= 0 {
			id, key = o.Hits[o.Binding].Rule.ID, rule.KeyText(o.Hits[o.Binding].Key)
		}
		all = append(all, decidedBy(&p, id, key, o.Decision))
	}
	return all
}

// withPenalties gives some rules a penalty, which a replay does not count.
func withPenalties(r *rand.Rand, text string) string {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if strings.Contains(line, "{id: r") && !strings.Contains(line, "mode: shadow") && !strings.Contains(line, "deny_all") && r.IntN(2) == 0 {
			lines[i] = strings.Replace(line, "{id: ", "{penalty: {after: 2, window: 1m, cool_down: 1m}, id: ", 1)
		}
	}
	return strings.Join(lines, "")
}

// exactChanges counts what two rule sets decide differently.
func exactChanges(before, after []decided) (c Comparison, perRule map[string]RuleChange) {
	perRule = map[string]RuleChange{}
	add := func(id string, change func(*RuleChange)) {
		one := perRule[id]
		one.Rule = id
		change(&one)
		perRule[id] = one
	}
	for i, b := range before {
		a := after[i]
		if a.Allowed {
			c.Allowed++
		} else {
			c.Denied++
			add(a.Rule, func(one *RuleChange) { one.After++ })
		}
		if !b.Allowed {
			add(b.Rule, func(one *RuleChange) { one.Before++ })
		}
		switch {
		case b.Allowed && !a.Allowed:
			c.NewlyDenied++
			add(a.Rule, func(one *RuleChange) { one.NewlyDenied++ })
		case !b.Allowed && a.Allowed:
			c.NewlyAllowed++
			add(b.Rule, func(one *RuleChange) { one.NewlyAllowed++ })
		}
	}
	return c, perRule
}

// Random rules, with penalties, decide as in the exact model, and are compared with the rules of a
// canary as two exact models differ.
func TestRandomRulesEqualTheExactModel(t *testing.T) {
	var sets, penalties, canaries, changes int64
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 23))
		text, nextText := withPenalties(r, randomRules(r)), withPenalties(r, randomRules(r))
		set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte(text)})
		next, err2 := rule.Parse(rule.File{Name: "next.yaml", Data: []byte(nextText)})
		if err != nil || err2 != nil { // it denies everything, or has buckets that do not divide its window
			continue
		}
		sets++
		penalties += int64(len(set.Penalties()))
		canary, kept, err := set.Canary(next, []string{"api_key", "ip"}[r.IntN(2)])
		if err != nil {
			t.Fatal(err)
		}
		canaries += int64(len(kept))
		events, reorder := randomEvents(r, 200), time.Duration(r.IntN(3))*500*time.Millisecond
		lines, s := replayed(t, Options{Rules: set, Against: canary, Alone: true, Reorder: reorder}, inputsOf(events)...)
		before, after := exactDecisions(t, set, events, reorder), exactDecisions(t, canary, events, reorder)
		if got := readDecided(t, lines); !slices.Equal(got, before) {
			t.Fatalf("seed %d:\ngot  %v\nwant %v\nunder\n%sof\n%s", seed, got, before, text, events)
		}
		want, perRule := exactChanges(before, after)
		changes += want.NewlyDenied + want.NewlyAllowed
		c := s.Compare
		if c.Allowed != want.Allowed || c.Denied != want.Denied || c.NewlyDenied != want.NewlyDenied || c.NewlyAllowed != want.NewlyAllowed || c.Invalid != 0 {
			t.Errorf("seed %d: got %+v, want %+v, under\n%sand\n%s", seed, c, want, text, nextText)
		}
		for _, got := range c.PerRule {
			got.BeforeOverTime, got.AfterOverTime = nil, nil
			if one := perRule[got.Rule]; !reflect.DeepEqual(got, RuleChange{Rule: got.Rule, Before: one.Before, After: one.After, NewlyDenied: one.NewlyDenied, NewlyAllowed: one.NewlyAllowed}) {
				t.Errorf("seed %d: got %+v, want %+v", seed, got, one)
			}
		}
	}
	if sets < 25 || penalties < 10 || canaries < 5 || changes < 500 {
		t.Errorf("%d sets, %d penalties, %d rules that a canary keeps, %d changes", sets, penalties, canaries, changes)
	}
}
