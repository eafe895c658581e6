package rule

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// countingMap counts how often each attribute is read.
type countingMap struct {
	Map
	times map[string]int
}

func (a countingMap) Attribute(name string) (string, bool) {
	a.times[name]++
	return a.Map.Attribute(name)
}

func TestAttributesAreReadOnceAndOnlyWhenNeeded(t *testing.T) {
	s := mustParse(t, `rules:
  - {id: a, match: {path: /a, headers: {x-plan: gold}}, limit: 10/s}
  - {id: b, match: {path: /b, cidr: [10.0.0.0/8]}, limit: 10/s}
  - {id: c, match: {path_prefix: /a, methods: [GET]}, by: [api_key, path], limit: 10/s}`)
	for _, c := range []struct {
		path string
		want string
	}{
		{"/other", "map[path:1]"},
		{"/a", "map[api_key:1 header:x-plan:1 method:1 path:1]"},
		{"/b", "map[ip:1 path:1]"},
	} {
		a := countingMap{Map{"path": c.path, "method": "GET", "api_key": "k", "header:x-plan": "gold", "ip": "192.0.2.1"}, map[string]int{}}
		now := int64(0)
		if _, err := s.Decide(t.Context(), newStore(t, &now), a, 1); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(a.times); got != c.want {
			t.Errorf("%s asks for %s, want %s", c.path, got, c.want)
		}
	}
}

// failing is a store that fails for some parts of its groups.
type failing struct {
	errs  []error
	calls *int
}

func (f failing) Take(context.Context, stint.Claim) (stint.Decision, error) {
	*f.calls++
	return stint.Decision{}, f.errs[0]
}

func (f failing) TakeGroups(_ context.Context, groups []stint.Group, out []stint.Decision) error {
	*f.calls++
	for i := range out {
		out[i] = stint.Decision{Allowed: true, Remaining: 1}
	}
	_, parts := stint.Sizes(groups)
	return &stint.GroupsError{Errs: f.errs[:parts]}
}

func TestAStoreThatFailsForAShadowRuleAloneIsNoError(t *testing.T) {
	s := mustParse(t, `rules: [{id: r, limits: [1/s, 2/m]}, {id: s, limits: [3/s, 4/m], mode: shadow}]`)
	down := &stint.Error{Code: stint.CodeUnavailable, Problem: "down"}
	calls := 0
	o, err := s.Decide(t.Context(), failing{[]error{nil, down}, &calls}, Map{"api_key": "a"}, 1)
	if err != nil || !o.Allowed() || !o.Hits[2].Decision.Degraded || o.Hits[2].Decision.At == 0 || o.Hits[1].Decision.Degraded {
		t.Errorf("%+v, %v", o, err)
	}
	o, err = s.Decide(t.Context(), failing{[]error{down, nil}, &calls}, Map{"api_key": "a"}, 1)
	if !errors.Is(err, down) || len(o.Hits) != 4 {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestThereAreNoMoreSetsOfAlternativesThanNumbers(t *testing.T) {
	var text strings.Builder
	text.WriteString("rules:\n")
	for i := range 256 {
		fmt.Fprintf(&text, "  - {id: r%d, limits: [1/m, 2/h], combine: any}\n", i)
	}
	calls := 0
	_, err := mustParse(t, text.String()).Decide(t.Context(), failing{nil, &calls}, Map{"api_key": "a"}, 1)
	var e *stint.Error
	if !errors.As(err, &e) || e.Code != stint.CodeExhausted || calls != 0 {
		t.Errorf("%v, %d calls", err, calls)
	}
}

func TestListsAndDenialsAskNoStore(t *testing.T) {
	s := mustParse(t, "rules: [{id: r, by: [user], missing: deny, limit: 1/s}]\ndeny: [bad]\nallow: [good]")
	for key, allowed := range map[string]bool{"bad": false, "good": true, "neither": false} {
		calls := 0
		o, err := s.Decide(t.Context(), failing{[]error{errors.New("asked")}, &calls}, Map{"api_key": key}, 1)
		if err != nil || calls != 0 || o.Allowed() != allowed {
			t.Errorf("%s: %+v, %v, %d calls", key, o, err, calls)
		}
	}
}

func TestPolicyTravelsWithTheClaims(t *testing.T) {
	s := mustParse(t, `rules: [{id: r, limit: 1/s, consistency: partitioned, on_store_failure: closed}]`)
	if got, want := s.Rules()[0].Policy, (stint.Policy{Consistency: stint.Partitioned, OnFailure: stint.FailClosed}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	q := s.borrow(Map{"api_key": "a"}, 1)
	defer s.release(q)
	q.collectClaims()
	if got := q.enforced[0].Policy; got != s.Rules()[0].Policy {
		t.Errorf("the claim has %+v", got)
	}
}

func TestRetryTimeIsTheStores(t *testing.T) {
	s := mustParse(t, `rules: [{id: r, limit: 1, window: 10}]`)
	now := int64(1_700_000_000_000_000)
	store := newStore(t, &now)
	for _, want := range []time.Duration{0, 10 * time.Second} {
		o, err := s.Decide(t.Context(), store, Map{"api_key": "a"}, 1)
		if err != nil || o.Decision.RetryAfter != want {
			t.Errorf("retry after %v, %v, want %v", o.Decision.RetryAfter, err, want)
		}
	}
}
