package rule_test

import (
	"errors"
	"testing"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// The zero Set and a nil Set have no rules. A set without a store returns an error.
func TestZeroValues(t *testing.T) {
	for _, s := range []*rule.Set{{}, nil} {
		testZeroSet(t, s)
	}
}

func testZeroSet(t *testing.T, s *rule.Set) {
	t.Helper()
	store := stint.NewMemory(stint.MemoryOptions{})
	if o, err := s.Decide(t.Context(), store, rule.Map{"ip": "192.0.2.1", "path": "/"}, 1); err != nil || !o.Allowed() || len(o.Hits) != 0 {
		t.Errorf("%+v, %v", o, err)
	}
	r := &rule.Rule{}
	if len(s.Rules()) != 0 || s.Rule("x") != nil || len(s.Attributes()) != 0 || len(s.Tiers()) != 0 || len(s.Warnings()) != 0 || len(s.By(r)) != 0 || len(s.Penalties()) != 0 {
		t.Error("the zero set has rules")
	}
	_ = s.Version()
	if len(s.CheckAttributes(func(string) error { return errors.New("unknown") })) != 0 || len(s.WithPathEncoding(rule.PathKeep).Rules()) != 0 {
		t.Error("the zero set has attributes")
	}
	_ = s.Plan(rule.Map{}, 1)
	_, _ = s.RuleClaims(r, rule.Map{}, 1)
	_ = s.RuleList(r, rule.Map{})
	_ = r.Any()
	_ = r.DenyAll()
	_ = r.Effective(s)
	var o rule.Outcome
	_ = o.Allowed()

	request := rule.Map{"ip": "192.0.2.1", "path": "/"}
	if _, err := rule.Builtin().Decide(t.Context(), nil, request, 1); !errors.As(err, new(*stint.Error)) {
		t.Errorf("without a store: %v", err)
	}
	withNone, err := rule.Builtin().Decide(t.Context(), store, nil, 1)
	withEmpty, errEmpty := rule.Builtin().Decide(t.Context(), store, rule.Map{}, 1)
	if err != nil || errEmpty != nil || len(withNone.Hits) != len(withEmpty.Hits) {
		t.Errorf("a request that says nothing: %+v, %v; want %+v, %v", withNone, err, withEmpty, errEmpty)
	}
	var p rule.Plan
	if got := p.AppendGroups(nil); got != nil || p.Settle(nil, nil, &o) == nil {
		t.Error("a zero plan asks for something")
	}
	_, _ = p.Request()
	p.Release()
}
