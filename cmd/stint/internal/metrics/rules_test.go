package metrics

import (
	"testing"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// ruleSeries returns the values of stint_decisions_total of a rule, by decision.
func ruleSeries(t *testing.T, m *Metrics, id string) map[string]float64 {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, one := range f.GetMetric() {
			if labels := one.GetLabel(); f.GetName() == "stint_decisions_total" && labels[1].GetValue() == id {
				values[labels[0].GetValue()] = one.GetCounter().GetValue()
			}
		}
	}
	return values
}

// The decisions of a rule by its failure policy are 0 before the first. A request that is
// still being decided when the rule leaves does not bring the series back.
func TestDecisionsByFailurePolicyBeginAtZeroAndEndWithTheRule(t *testing.T) {
	set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte("rules: [{id: orders, limit: 10/s, on_store_failure: open}]")})
	if err != nil {
		t.Fatal(err)
	}
	m := New(Options{})
	counters := m.Rules(set)
	if got, ok := ruleSeries(t, m, "orders")["error_open"]; !ok || got != 0 {
		t.Errorf("error_open is %v (%v) before a failure", got, ok)
	}
	admitted := stint.Decision{Allowed: true, Degraded: true}
	o := &rule.Outcome{Decision: admitted, Hits: []rule.Hit{{Rule: set.Rules()[0], Decision: admitted}}}
	m.CountOutcome(o, counters)
	if got := ruleSeries(t, m, "orders")["error_open"]; got != 1 {
		t.Errorf("error_open is %v after a failure", got)
	}
	empty, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte("rules: []")})
	if err != nil {
		t.Fatal(err)
	}
	m.Forget([]*rule.Set{set}, []*rule.Set{empty})
	m.CountOutcome(o, counters)
	if got := ruleSeries(t, m, "orders"); len(got) != 0 {
		t.Errorf("a rule that has left has the series %v", got)
	}
}
