package rule

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/stintdev/stint"
)

const planned = `
rules:
  - {id: orders, match: {path_prefix: /orders}, by: [api_key], limit: 2, window: 60}
  - {id: day, match: {path_prefix: /orders}, by: [api_key], limit: 5, window: 1h}
  - {id: seen, match: {path_prefix: /seen}, by: [api_key], limit: 1, window: 60, mode: shadow}
  - {id: both, match: {path_prefix: /orders/new}, by: [api_key], limit: 1, window: 60, mode: shadow}
  - {id: shut, match: {path_prefix: /shut}, by: [api_key], deny_all: true}
  - {id: named, match: {path_prefix: /named}, by: [user], missing: deny, limit: 1, window: 60}
whitelist: ["sk_in_*"]
blacklist: ["sk_out_*"]
`

// plannedRequests has neighbours that would affect each other if the groups of
// one call were not independent.
func plannedRequests() (all []Map) {
	for _, path := range []string{"/orders", "/orders/new", "/seen", "/shut", "/named", "/none"} {
		for _, key := range []string{"a", "a", "b", "sk_in_1", "sk_out_1", "a"} {
			all = append(all, Map{"api_key": key, "path": path})
			all = append(all, Map{"api_key": "a", "path": "/seen"}, Map{"api_key": "a", "path": "/orders"})
		}
	}
	return append(all, Map{"path": "/orders", "api_key": "a\nb"}, Map{"path": "/seen", "api_key": "c"})
}

// TestPlansDecideAsRequestsOneByOne compares one call for all requests with one
// call for each.
func TestPlansDecideAsRequestsOneByOne(t *testing.T) {
	s := mustParse(t, planned)
	now := int64(1_700_000_000_000_000)
	together, alone := newStore(t, &now), newStore(t, &now)
	for round := range 3 {
		for i, got := range decidePlans(t, s, together, now, plannedRequests(), int64(round)) {
			var want Outcome
			err := s.DecideInto(t.Context(), alone, at64{plannedRequests()[i], now}, int64(round), &want)
			if (err == nil) != (got.err == nil) || summary(&got.outcome) != summary(&want) || !reflect.DeepEqual(got.outcome.Decision, want.Decision) {
				t.Errorf("round %d, %v:\n%s, %v; want\n%s, %v", round, plannedRequests()[i], summary(&got.outcome), got.err, summary(&want), err)
			}
		}
	}
}

// settled is the result of one of several requests.
type settled struct {
	outcome Outcome
	err     error
}

// decidePlans decides requests of the same moment in one call to the store.
func decidePlans(t *testing.T, s *Set, store stint.Store, now int64, requests []Map, cost int64) []settled {
	t.Helper()
	plans, ends, groups := []Plan(nil), []int(nil), []stint.Group(nil)
	for _, a := range requests {
		plans = append(plans, s.Plan(at64{a, now}, cost))
		groups = plans[len(plans)-1].AppendGroups(groups)
		ends = append(ends, len(groups))
	}
	claims, _ := stint.Sizes(groups)
	decisions := make([]stint.Decision, claims)
	if err := store.TakeGroups(t.Context(), groups, decisions); err != nil {
		t.Fatal(err)
	}
	all, from := make([]settled, len(plans)), 0
	for i, p := range plans {
		n, _ := stint.Sizes(groups[from:ends[i]])
		all[i].err = p.Settle(decisions[:n], nil, &all[i].outcome)
		p.Release()
		decisions, from = decisions[n:], ends[i]
	}
	return all
}

func TestPlanOfAFailedGroupHasItsError(t *testing.T) {
	s := mustParse(t, planned)
	for path, c := range map[string]struct {
		errs []error
		want bool
	}{
		"/orders":     {[]error{context.Canceled}, true},
		"/orders/new": {[]error{nil, context.Canceled}, false}, // the error is of the shadow rule
		"/seen":       {[]error{nil, context.Canceled}, false},
	} {
		p := s.Plan(Map{"api_key": "a", "path": path}, 1)
		n, _ := stint.Sizes(p.AppendGroups(nil))
		var o Outcome
		err := p.Settle(make([]stint.Decision, n), c.errs, &o)
		if errors.Is(err, context.Canceled) != c.want {
			t.Errorf("%s: %v", path, err)
		}
		p.Release()
	}
}
