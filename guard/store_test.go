package guard_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/resilience/breaker"
)

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	for name, o := range map[string]guard.Options{
		"Deadline":    {Deadline: -1},
		"Nodes":       {Nodes: -1},
		"SlowRatio":   {Breaker: &breaker.Options{SlowRatio: 2, SlowAfter: 1}},
		"Window":      {Breaker: &breaker.Options{Window: -1}},
		"OpenFor: is": {Breaker: &breaker.Options{OpenFor: -1}},
	} {
		if _, err := guard.New(newFaulty(), o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want an error that names it", name, err)
		}
	}
}

// policies are the answers of a claim of 10 a minute while the store fails.
var policies = []struct {
	name   string
	policy stint.OnFailure
	want   stint.Decision // without times
}{
	{"open", stint.FailOpen, stint.Decision{Allowed: true, Degraded: true, Limit: 10, Remaining: 10}},
	{"closed", stint.FailClosed, stint.Decision{Allowed: false, Degraded: true, Limit: 10}},
	{"local", stint.FailLocal, stint.Decision{Allowed: true, Degraded: true, Limit: 10, Remaining: 9}},
	{"lastKnown", stint.FailLastKnown, stint.Decision{Allowed: true, Degraded: true, Limit: 10, Remaining: 9}},
}

func TestFrozenStoreIsAnsweredForAtTheDeadline(t *testing.T) {
	for _, c := range policies {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				store.befall(freezes)
				g := mustNew(t, store, guard.Options{})
				start := time.Now()
				d, err := g.Take(t.Context(), claim(t, "user:1", c.policy))
				if took := time.Since(start); took != guard.DefaultDeadline {
					t.Errorf("took %v, want %v", took, guard.DefaultDeadline)
				}
				if err != nil || outline(d) != c.want {
					t.Errorf("got %+v, %v, want %+v", d, err, c.want)
				}
				if d.At != time.Now().UnixMicro() {
					t.Errorf("decided at %d, want now", d.At)
				}
				if (c.policy == stint.FailClosed) != (d.RetryAfter == guard.DefaultDeadline) {
					t.Errorf("retry after %v", d.RetryAfter)
				}
			})
		})
	}
}

func claim(tb testing.TB, key string, p stint.OnFailure) stint.Claim {
	return stint.Claim{Key: key, Limit: tenAMinute(tb), Cost: 1, Policy: stint.Policy{OnFailure: p}}
}

func tenAMinute(tb testing.TB) stint.Limit { return mustLimit(tb, "10/m") }

// outline is a decision without its times.
func outline(d stint.Decision) stint.Decision {
	return stint.Decision{Allowed: d.Allowed, Degraded: d.Degraded, Limit: d.Limit, Remaining: d.Remaining, Granted: d.Granted}
}

func TestCallersOwnDeadlineHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.befall(freezes)
		g := mustNew(t, store, guard.Options{})
		for range 1000 {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			start := time.Now()
			_, err := g.Take(ctx, claim(t, "user:1", stint.FailOpen))
			cancel()
			if took := time.Since(start); took != 5*time.Millisecond {
				t.Fatalf("took %v", took)
			}
			wantCode(t, err, stint.CodeTimeout)
		}
		if s := g.Stats(); !g.Up() || s.Open != 0 {
			t.Errorf("a caller's own deadline counts against the store: %+v", s)
		}
	})
}

// A caller who gives up after ten milliseconds has seen that the store is slow.
func TestLongWaitsCountAsASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.befall(freezes)
		g := mustNew(t, store, guard.Options{})
		for range 400 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			_, err := g.Take(ctx, claim(t, "user:1", stint.FailOpen))
			cancel()
			if !g.Up() {
				return
			}
			wantCode(t, err, stint.CodeTimeout)
		}
		t.Error("the store is still asked")
	})
}

func TestCanceledCallerGetsItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.befall(freezes)
		g := mustNew(t, store, guard.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		_, err := g.Take(ctx, claim(t, "user:1", stint.FailOpen))
		wantCode(t, err, stint.CodeCanceled)
	})
}

func wantCode(t *testing.T, err error, code stint.Code) {
	t.Helper()
	var e *stint.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("got %v, want code %v", err, code)
	}
}

// What the store says of one claim must not take it from all the others.
func TestOnlyFailuresOfTheStoreOpen(t *testing.T) {
	for _, c := range []struct {
		name     string
		err      error
		degraded bool // false: the error is the caller's
		opens    bool
	}{
		{"unavailable", errUnavailable, true, true},
		{"timeout", &stint.Error{Code: stint.CodeTimeout, Problem: "late"}, true, true},
		{"notOurs", errors.New("broken"), true, true},
		{"invalid", errInvalid, false, false},
		{"canceled", &stint.Error{Code: stint.CodeCanceled, Problem: "gone"}, false, false},
		{"corrupt", errCorrupt, true, false},
		{"failing scripts", &stint.Error{Code: stint.CodeInternal, Kind: "script", Problem: "a script failed"}, true, true},
		{"scripts of another version", &stint.Error{Code: stint.CodeInternal, Kind: "garbled", Problem: "a reply does not agree"}, true, true},
		{"wrongtype", &stint.Error{Code: stint.CodeUnavailable, Kind: "wrongtype", Problem: "a list"}, true, false},
		{"exhausted", &stint.Error{Code: stint.CodeExhausted, Problem: "full"}, true, false},
		{"contended", &stint.Error{Code: stint.CodeContended, Problem: "lost every swap"}, true, false},
		{"throttled", &stint.Error{Code: stint.CodeExhausted, Kind: "throttled", Problem: "fewer calls"}, true, false},
		{"callers over their budget", errCallerBudget, false, false},
		{"replicas", errReplicas, true, false},
		{"slot on its way", &stint.Error{Code: stint.CodeUnavailable, Kind: "try_again", Problem: "the slot's keys move"}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := newFaulty()
			store.befall(fails(c.err))
			g := mustNew(t, store, guard.Options{})
			for range 19 {
				d, err := g.Take(t.Context(), claim(t, "user:1", stint.FailOpen))
				if d.Degraded != c.degraded || (err == nil) != c.degraded {
					t.Fatalf("got %+v, %v", d, err)
				}
			}
			if !g.Up() {
				t.Fatal("opened too early")
			}
			_, _ = g.Take(t.Context(), claim(t, "user:1", stint.FailOpen))
			if g.Up() == c.opens {
				t.Errorf("after 20 calls: %+v", g.Stats())
			}
		})
	}
}

func TestInvalidClaimsAreErrorsWhileTheStoreFails(t *testing.T) {
	store := newFaulty()
	g := mustNew(t, store, guard.Options{})
	opened(t, g, store, fails(errUnavailable), "user:1")
	for _, p := range policies {
		for _, c := range []stint.Claim{{Policy: stint.Policy{OnFailure: p.policy}}, {Limit: tenAMinute(t), Policy: stint.Policy{OnFailure: p.policy}}} {
			_, err := g.Take(t.Context(), c)
			wantCode(t, err, stint.CodeInvalid)
			err = g.TakeGroups(t.Context(), []stint.Group{{Claims: []stint.Claim{c}}}, make([]stint.Decision, 1))
			wantCode(t, err, stint.CodeInvalid)
		}
	}
	wantCode(t, g.TakeGroups(t.Context(), nil, make([]stint.Decision, 1)), stint.CodeInvalid)
}

// What only changes what the store knows cannot be done without it.
func TestGiveBacksResetsAndPeeksWhileTheStoreFails(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy stint.OnFailure
		cost   int64
		want   stint.Decision // zero: an error
	}{
		{"openPeek", stint.FailOpen, 0, stint.Decision{Allowed: true, Degraded: true, Limit: 10, Remaining: 10}},
		{"closedPeek", stint.FailClosed, 0, stint.Decision{Degraded: true, Limit: 10}},
		{"localPeek", stint.FailLocal, 0, stint.Decision{Allowed: true, Degraded: true, Limit: 10, Remaining: 7}},
		{"openGiveBack", stint.FailOpen, -2, stint.Decision{}},
		{"closedGiveBack", stint.FailClosed, -2, stint.Decision{}},
		{"localGiveBack", stint.FailLocal, -2, stint.Decision{Allowed: true, Degraded: true, Limit: 10, Remaining: 9}},
		{"openReset", stint.FailOpen, stint.Forget, stint.Decision{}},
		{"localReset", stint.FailLocal, stint.Forget, stint.Decision{}},
		{"lastKnownPeek", stint.FailLastKnown, 0, stint.Decision{Allowed: true, Degraded: true, Limit: 10, Remaining: 7}},
		{"lastKnownGiveBack", stint.FailLastKnown, -2, stint.Decision{Allowed: true, Degraded: true, Limit: 10, Remaining: 9}},
		{"lastKnownReset", stint.FailLastKnown, stint.Forget, stint.Decision{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				g := mustNew(t, store, guard.Options{})
				opened(t, g, store, fails(errUnavailable), "user:1")
				take := claim(t, "user:2", c.policy)
				take.Cost = 3
				_, _ = g.Take(t.Context(), take)
				take.Cost = c.cost
				one, oneErr := g.Take(t.Context(), take)
				out := make([]stint.Decision, 1)
				groupErr := g.TakeGroups(t.Context(), []stint.Group{{Claims: []stint.Claim{take}}}, out)
				if c.want == (stint.Decision{}) {
					wantCode(t, oneErr, stint.CodeUnavailable)
					wantCode(t, groupErr, stint.CodeUnavailable)
					return
				}
				if oneErr != nil || outline(one) != c.want || groupErr != nil || out[0].Allowed != one.Allowed {
					t.Errorf("got %+v %v, %+v %v, want %+v", one, oneErr, out, groupErr, c.want)
				}
			})
		})
	}
}

// A caller whose new keys are over its budget gets the error under every policy,
// alone and in a group; the groups beside it are decided.
func TestCallersOverTheirBudgetAreNotLetThrough(t *testing.T) {
	for _, p := range policies {
		store := newFaulty()
		store.befall(fails(errCallerBudget))
		g := mustNew(t, store, guard.Options{})
		c := claim(t, "user:1", p.policy)
		_, err := g.Take(t.Context(), c)
		wantCode(t, err, stint.CodeExhausted)
		out := make([]stint.Decision, 1)
		err = g.TakeGroups(t.Context(), []stint.Group{{Claims: []stint.Claim{c}}}, out)
		wantCode(t, err, stint.CodeExhausted)
		if out[0].Allowed || out[0].Degraded {
			t.Errorf("%v: the group is decided as %+v", p.policy, out[0])
		}
	}
}

var errCallerBudget = &stint.Error{Code: stint.CodeExhausted, Kind: "caller_budget", Problem: "no room for new keys"}
