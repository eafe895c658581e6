package stint_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stintdev/stint"
)

// noted is a store that keeps copies of the claims that it receives, and returns
// err if it is set.
type noted struct {
	stint.Store

	claims []stint.Claim
	err    error
}

func (n *noted) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	n.claims = n.claims[:0]
	for _, g := range groups {
		n.claims = append(n.claims, g.Claims...)
	}
	if n.err != nil {
		return n.err
	}
	return n.Store.TakeGroups(ctx, groups, out)
}

// The buffers of a call are used again. Nothing of one call may appear in the
// next, however the call ended.
func TestCallsOverSeveralLimitsLeaveNothingToTheNext(t *testing.T) {
	a, b := mustLimit(t, stint.PerHour(3)), mustLimit(t, stint.PerDay(9))
	store := &noted{Store: stint.NewMemory(stint.MemoryOptions{})}
	limiter := limiterOver(t, store, a, b)
	own := limiter.Limits()
	r, err := limiter.Reserve(t.Context(), "first", 2)
	if err != nil || !r.Decision.Allowed {
		t.Fatal(r.Decision, err)
	}
	for _, c := range []struct {
		name string
		err  error
		call func()
		want stint.Claim
	}{
		{"cancel", nil, func() { _ = r.Cancel(t.Context()) }, stint.Claim{Key: "first", Cost: -2, At: r.Decision.At}},
		{"allow", nil, func() { _, _ = limiter.Allow(t.Context(), "k") }, stint.Claim{Key: "k", Cost: 1}},
		{"reset", nil, func() { _ = limiter.Reset(t.Context(), "k") }, stint.Claim{Key: "k", Cost: stint.Forget}},
		{"peek", nil, func() { _, _ = limiter.Peek(t.Context(), "k") }, stint.Claim{Key: "k"}},
		{"failing", errors.New("down"), func() { _, _ = limiter.AllowN(t.Context(), "f", 3) }, stint.Claim{Key: "f", Cost: 3}},
		{"each", nil, func() { _, _, _ = limiter.AllowEach(t.Context(), "e", 2, 0, make([]stint.Decision, 2)) }, stint.Claim{Key: "e", Cost: 2}},
	} {
		store.err = c.err
		c.call()
		want := []stint.Claim{c.want, c.want}
		want[0].Limit, want[1].Limit = own[0], own[1]
		if !slices.Equal(store.claims, want) {
			t.Errorf("%s claims %+v; want %+v", c.name, store.claims, want)
		}
	}
}

func TestAllowEachTellsOfEveryLimit(t *testing.T) {
	hour, day := stint.PerHour(3), stint.PerDay(2)
	for _, specs := range [][]stint.Spec{{hour}, {hour, day}} {
		limiter, out := newLimiter(t, specs...), make([]stint.Decision, len(specs))
		for range 2 {
			if _, d, err := limiter.AllowEach(t.Context(), "k", 1, 0, out); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
		}
		binding, d, err := limiter.AllowEach(t.Context(), "k", 2, 0, out)
		last := len(specs) - 1
		if err != nil || binding != last || d != out[last] || d.Allowed || out[0].Limit != 3 || out[0].Remaining != 1 {
			t.Errorf("%d limits: claim %d, %+v of %+v, %v", len(specs), binding, d, out, err)
		}
	}
}

// An out slice of the wrong length is refused before anything is charged.
func TestAllowEachNeedsRoomForEveryLimit(t *testing.T) {
	for _, specs := range [][]stint.Spec{{stint.PerHour(3)}, {stint.PerHour(3), stint.PerDay(3)}} {
		limiter := newLimiter(t, specs...)
		outs := [][]stint.Decision{make([]stint.Decision, len(specs)+1), make([]stint.Decision, max(0, len(specs)-1)), nil}
		for _, out := range outs {
			if binding, d, err := limiter.AllowEach(t.Context(), "k", 1, 0, out); codeOf(err) != stint.CodeInvalid || binding != -1 || d.Allowed {
				t.Errorf("%d limits, room for %d: claim %d, %+v, %v; want it refused", len(specs), len(out), binding, d, err)
			}
		}
		if d, _ := limiter.Peek(t.Context(), "k"); d.Remaining != 3 {
			t.Errorf("%d limits: %d of 3 left", len(specs), d.Remaining)
		}
	}
}
