package guard_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
)

// answers is a group's decisions in one line: per claim a for allowed or d for
// denied, in capitals when degraded.
func answers(decisions []stint.Decision) (s string) {
	for _, d := range decisions {
		letter := map[[2]bool]string{{true, false}: "a", {true, true}: "A", {false, false}: "d", {false, true}: "D"}
		s += letter[[2]bool{d.Allowed, d.Degraded}]
	}
	return s
}

// asks is a claim on a limit of 2 a minute.
func asks(tb testing.TB, key string, p stint.OnFailure) stint.Claim {
	return stint.Claim{Key: key, Limit: mustLimit(tb, "2/m"), Cost: 1, Policy: stint.Policy{OnFailure: p}}
}

// In a group: closed if any is closed, else what the local claims say, else
// open. The groups are asked three times, which exhausts the local ones.
func TestGroupsWithoutStore(t *testing.T) {
	const open, closed, local, known = stint.FailOpen, stint.FailClosed, stint.FailLocal, stint.FailLastKnown
	for _, c := range []struct {
		name     string
		policies []stint.OnFailure
		any      []uint8
		want     [3]string
	}{
		{"openIsAllowed", []stint.OnFailure{open, open}, nil, [3]string{"AA", "AA", "AA"}},
		{"anyClosedCloses", []stint.OnFailure{open, closed}, nil, [3]string{"AD", "AD", "AD"}},
		{"closedBeatsLocal", []stint.OnFailure{local, closed, open}, nil, [3]string{"ADA", "ADA", "ADA"}},
		{"localDecides", []stint.OnFailure{open, local}, nil, [3]string{"AA", "AA", "AD"}},
		{"localsDecideTogether", []stint.OnFailure{local, local}, nil, [3]string{"AA", "AA", "DD"}},
		{"closedBeatsLastKnown", []stint.OnFailure{known, closed, local}, nil, [3]string{"ADA", "ADA", "ADA"}},
		{"lastKnownDecides", []stint.OnFailure{known, open}, nil, [3]string{"AA", "AA", "DA"}},
		{"lastKnownAndLocalDecideTogether", []stint.OnFailure{known, local, open}, nil, [3]string{"AAA", "AAA", "DDA"}},
		{"alternativeToClosedIsClosed", []stint.OnFailure{open, closed}, []uint8{1, 1}, [3]string{"DD", "DD", "DD"}},
		{"setsAreClosedApart", []stint.OnFailure{open, closed}, []uint8{1, 2}, [3]string{"AD", "AD", "AD"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				g := mustNew(t, store, guard.Options{})
				opened(t, g, store, fails(errUnavailable), "user:1")
				var group stint.Group
				for i, p := range c.policies {
					group.Claims = append(group.Claims, asks(t, fmt.Sprint("key:", i), p))
					if c.any != nil {
						group.Claims[i].AnyOf = c.any[i]
					}
				}
				for i, want := range c.want {
					out := make([]stint.Decision, len(group.Claims))
					if err := g.TakeGroups(t.Context(), []stint.Group{group}, out); err != nil {
						t.Fatal(err)
					}
					if got := answers(out); got != want {
						t.Errorf("request %d: got %s, want %s", i, got, want)
					}
					if binding, d := stint.Combine(group.Claims, out); !d.Allowed && d.RetryAfter <= 0 {
						t.Errorf("request %d: denied by claim %d without a time to retry: %+v", i, binding, d)
					}
				}
			})
		})
	}
}

// A denied group charges none of its local claims.
func TestLocalGroupsAreAllOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		g := mustNew(t, store, guard.Options{})
		opened(t, g, store, fails(errUnavailable), "user:1")
		one, two := asks(t, "one", stint.FailLocal), asks(t, "two", stint.FailLocal)
		two.Cost = 3
		out := make([]stint.Decision, 2)
		for range 5 {
			if err := g.TakeGroups(t.Context(), []stint.Group{{Claims: []stint.Claim{one, two}}}, out); err != nil || answers(out) != "AD" {
				t.Fatal(answers(out), err)
			}
		}
		if d, _ := g.Take(t.Context(), one); d.Remaining != 1 {
			t.Errorf("%d left, want 1", d.Remaining)
		}
	})
}

// The groups of one call go where their shards are: the circuit of a is open, b serves.
func TestGroupsOfOneCallAreSplitByShard(t *testing.T) {
	const open, closed, local = stint.FailOpen, stint.FailClosed, stint.FailLocal
	group := func(p stint.OnFailure, keys ...string) (g stint.Group) {
		for _, key := range keys {
			g.Claims = append(g.Claims, asks(t, key, p))
		}
		return g
	}
	observed := func(g stint.Group, shadows ...stint.Group) stint.Group {
		for _, shadow := range shadows {
			g.Shadows = append(g.Shadows, shadow.Claims)
		}
		return g
	}
	dry := func(g stint.Group) stint.Group {
		g.Dry = true
		return g
	}
	for _, c := range []struct {
		name    string
		groups  []stint.Group
		want    string
		charged map[string]int64 // units that the store has charged
	}{
		{"eachItsOwn", []stint.Group{group(open, "a/1"), group(open, "b/1")}, "Aa", map[string]int64{"b/1": 1}},
		{"orderIsKept", []stint.Group{group(open, "b/1", "b/2"), group(closed, "a/1", "a/2"), group(open, "b/3")}, "aaDDa", map[string]int64{"b/1": 1, "b/2": 1, "b/3": 1}},
		{"oneShardDownIsGroupDown", []stint.Group{group(open, "a/1", "b/1")}, "AA", map[string]int64{"b/1": 0}},
		{"shadowFollowsItsGroup", []stint.Group{observed(group(open, "a/1"), group(open, "b/1")), observed(group(open, "b/2"), group(open, "b/3"))}, "AAaa", map[string]int64{"b/1": 0, "b/2": 1, "b/3": 1}},
		{"shadowDownAlone", []stint.Group{observed(group(open, "b/1"), group(closed, "a/1"))}, "aD", map[string]int64{"b/1": 1}},
		{"shadowDownAmongOthers", []stint.Group{observed(group(open, "b/1"), group(open, "b/2"), group(closed, "a/1"), group(open, "b/3"))}, "aaDa", map[string]int64{"b/1": 1, "b/2": 1, "b/3": 1}},
		{"shadowsAlone", []stint.Group{observed(stint.Group{}, group(closed, "a/1"), group(open, "b/1"))}, "Da", map[string]int64{"b/1": 1}},
		{"localShadowOfAdmitted", []stint.Group{observed(group(open, "b/1"), group(local, "a/1"), group(local, "a/1"), group(local, "a/1"))}, "aAAD", map[string]int64{"b/1": 1}},
		{"localShadowOfDenied", []stint.Group{observed(group(closed, "a/1"), group(local, "a/2"), group(local, "a/2"), group(local, "a/2"))}, "DAAA", nil},
		{"localDry", []stint.Group{dry(group(local, "a/1")), dry(group(local, "a/1")), dry(group(local, "a/1")), group(local, "a/1"), group(local, "a/1"), dry(group(local, "a/1"))}, "AAAAAD", nil},
		{"dry", []stint.Group{dry(observed(group(open, "b/1"), group(open, "b/2")))}, "aa", map[string]int64{"b/1": 0, "b/2": 0}},
		{"emptyGroup", []stint.Group{{}, group(open, "b/1")}, "a", map[string]int64{"b/1": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newShardedFaulty()
				g := mustNew(t, store, guard.Options{})
				opened(t, g, store.faulty, on("a", fails(errUnavailable)), "a/0")
				out := make([]stint.Decision, len(c.want))
				if err := g.TakeGroups(t.Context(), c.groups, out); err != nil || answers(out) != c.want {
					t.Errorf("got %s, %v, want %s", answers(out), err, c.want)
				}
				for key, want := range c.charged {
					d, err := store.Store.Take(t.Context(), stint.Claim{Key: key, Limit: mustLimit(t, "2/m")})
					if err != nil || d.Remaining != 2-want {
						t.Errorf("%s: %d left, want %d used; %v", key, d.Remaining, want, err)
					}
				}
			})
		})
	}
}

// A group of two shards that fails speaks against both: the one that is well is
// found to be at its first probe.
func TestGroupsOfTwoShardsDoNotKeepTheGoodOneFromWorking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShardedFaulty()
		g := mustNew(t, store, guard.Options{})
		store.befall(on("a", fails(errUnavailable)))
		both := []stint.Group{{Claims: []stint.Claim{asks(t, "a/1", stint.FailOpen), asks(t, "b/1", stint.FailOpen)}}}
		for i := range 1000 {
			if err := g.TakeGroups(t.Context(), both, make([]stint.Decision, 2)); err != nil {
				t.Fatal(err)
			}
			if d, err := g.Take(t.Context(), claim(t, fmt.Sprint("b/", i), stint.FailClosed)); err != nil || i > 100 && d.Degraded {
				t.Fatal(i, d, err)
			}
			time.Sleep(time.Millisecond)
		}
		if s := g.Stats(); s.Shards[1].Opened > 1 || g.Up() {
			t.Errorf("got %+v", s)
		}
	})
}

// A dead shard in the same calls leaves the other its calls.
func TestDeadShardOpensItsOwnBreakerAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShardedFaulty()
		g := mustNew(t, store, guard.Options{})
		store.befall(on("a", freezes))
		both := []stint.Group{{Claims: []stint.Claim{asks(t, "a/1", stint.FailOpen)}}, {Claims: []stint.Claim{asks(t, "b/1", stint.FailOpen)}}}
		for range 100 {
			out := make([]stint.Decision, 2)
			if err := g.TakeGroups(t.Context(), both, out); err != nil || !out[0].Degraded || out[1].Degraded {
				t.Fatal(out, err)
			}
		}
		s := g.Stats()
		if s.Shards[0].Opened != 1 || s.Shards[1].Opened != 0 || g.Up() {
			t.Errorf("got %+v", s)
		}
		if want := (guard.Degraded{Open: 100}); s.Degraded != want || s.Shards[0].Degraded != want || s.Shards[1].Degraded != (guard.Degraded{}) {
			t.Errorf("decided without the store: %+v", s)
		}
	})
}

// How long a call to two shards takes speaks against neither; one to the slow
// one alone does.
func TestSlowShardIsLeftAloneAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShardedFaulty()
		g := mustNew(t, store, guard.Options{})
		store.befall(on("a", slows(12*time.Millisecond)))
		both := []stint.Group{{Claims: []stint.Claim{asks(t, "a/1", stint.FailOpen)}}, {Claims: []stint.Claim{asks(t, "b/1", stint.FailOpen)}}}
		for start := time.Now(); time.Since(start) < 4*time.Second; {
			if err := g.TakeGroups(t.Context(), both, make([]stint.Decision, 2)); err != nil {
				t.Fatal(err)
			}
			_, _ = g.Take(t.Context(), claim(t, "a/1", stint.FailOpen))
			time.Sleep(time.Millisecond)
		}
		s := g.Stats()
		if s.Shards[0].Opened == 0 || s.Shards[1].Opened != 0 {
			t.Errorf("got %+v", s)
		}
	})
}

// The errors of callers stay with their groups.
func TestCallersErrorsStayWithTheirGroups(t *testing.T) {
	store := newShardedFaulty()
	g := mustNew(t, store, guard.Options{})
	store.befall(on("a", fails(errCorrupt)))
	groups := []stint.Group{
		{Claims: []stint.Claim{{Key: "b/1"}}}, // a claim without a limit
		{Claims: []stint.Claim{asks(t, "a/1", stint.FailOpen)}},
		{Claims: []stint.Claim{asks(t, "b/2", stint.FailOpen)}},
		{Claims: []stint.Claim{{Key: "a/3", Limit: tenAMinute(t), Cost: stint.Forget}}},
	}
	out := make([]stint.Decision, len(groups))
	err := g.TakeGroups(t.Context(), groups, out)
	var partial *stint.GroupsError
	if !errors.As(err, &partial) {
		t.Fatal(err)
	}
	wantCode(t, partial.Errs[0], stint.CodeInvalid)
	wantCode(t, partial.Errs[3], stint.CodeInternal)
	if partial.Errs[1] != nil || partial.Errs[2] != nil || !out[1].Degraded || out[2].Degraded || !out[2].Allowed {
		t.Errorf("got %+v, %v", out, partial.Errs)
	}
}

// An occasional failure is answered for without giving up the store.
func TestLoneFailureIsAnsweredFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		g := mustNew(t, store, guard.Options{})
		for i := range 100 {
			store.heal()
			if i%10 == 0 {
				store.befall(fails(errUnavailable))
			}
			d, err := g.Take(t.Context(), claim(t, fmt.Sprint("user:", i), stint.FailLocal))
			if err != nil || !d.Allowed || d.Degraded != (i%10 == 0) {
				t.Fatal(i, d, err)
			}
			time.Sleep(time.Millisecond)
		}
		if s := g.Stats(); s.Local != 10 || !g.Up() {
			t.Errorf("got %+v", s)
		}
	})
}
