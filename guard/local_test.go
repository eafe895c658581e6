package guard_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
)

// counted is a faulty store that knows its nodes.
type counted struct {
	*faulty

	nodes atomic.Int64
}

func (s *counted) NodeCount() int { return int(s.nodes.Load()) }

// Under local exactly the share is admitted, however many ask at once.
func TestLocalAdmitsExactlyTheShare(t *testing.T) {
	for _, c := range []struct {
		name           string
		limit          string
		nodes, counted int
		want           int64
	}{
		{"alone", "10/m", 0, 1, 10},
		{"ofThree", "10/m", 0, 3, 4},
		{"theFlagWins", "10/m", 2, 3, 5},
		{"atLeastOne", "2/m", 0, 50, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &counted{faulty: newFaulty()}
				store.nodes.Store(int64(c.counted))
				store.befall(freezes)
				g := mustNew(t, store, guard.Options{Nodes: c.nodes})
				if n := admitted(t, g, stint.Claim{Key: "user:1", Limit: mustLimit(t, c.limit), Cost: 1, Policy: stint.Policy{OnFailure: stint.FailLocal}}); n != c.want {
					t.Errorf("%d were admitted, want %d", n, c.want)
				}
			})
		})
	}
}

// admitted is how many of many concurrent takes are, before and after the
// breaker opens.
func admitted(t *testing.T, g *guard.Store, c stint.Claim) int64 {
	t.Helper()
	var n atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 50 {
				d, err := g.Take(t.Context(), c)
				if err != nil || !d.Degraded {
					t.Error(d, err)
				}
				if d.Allowed {
					n.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return n.Load()
}

// When nodes come or go the shares change, and keep what was used of them.
func TestShareFollowsTheNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counted{faulty: newFaulty()}
		g := mustNew(t, store, guard.Options{})
		store.nodes.Store(1)
		opened(t, g, store.faulty, fails(errUnavailable), "user:1")
		for _, nodes := range []int64{1, 2, 5} {
			store.nodes.Store(nodes)
			d, err := g.Take(t.Context(), claim(t, "user:2", stint.FailLocal))
			if err != nil || d.Limit != 10/nodes || d.Remaining != 10/nodes-1 {
				t.Errorf("%d nodes: got %+v, %v", nodes, d, err)
			}
		}
		store.nodes.Store(1)
		if d, err := g.Take(t.Context(), claim(t, "user:2", stint.FailLocal)); err != nil || d.Limit != 10 || d.Remaining != 0 {
			t.Errorf("one node again: got %+v, %v, want the one that was left", d, err)
		}
	})
}

// The rate is divided too: 60 a minute of two nodes is one in two seconds.
func TestLocalRateIsDivided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		g := mustNew(t, store, guard.Options{Nodes: 2})
		opened(t, g, store, fails(errUnavailable), "user:1")
		c := stint.Claim{Key: "user:1", Limit: mustLimit(t, "60/m"), Cost: 30, Policy: stint.Policy{OnFailure: stint.FailLocal}}
		if d, err := g.Take(t.Context(), c); err != nil || !d.Allowed || d.Limit != 30 {
			t.Fatal(d, err)
		}
		c.Cost = 1
		if d, err := g.Take(t.Context(), c); err != nil || d.Allowed || d.RetryAfter != 2*time.Second {
			t.Errorf("got %+v, %v", d, err)
		}
	})
}

func TestRulesOwnLocalLimitStandsIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		g := mustNew(t, store, guard.Options{Nodes: 7})
		opened(t, g, store, fails(errUnavailable), "user:1")
		local := &stint.Local{Key: "10.0.0.1", Limit: mustLimit(t, "3/m")}
		group := stint.Group{}
		for _, limit := range []string{"100/m", "1000/h"} { // one rule, two limits
			group.Claims = append(group.Claims, stint.Claim{Key: "user:1", Limit: mustLimit(t, limit), Cost: 1, Local: local, Policy: stint.Policy{OnFailure: stint.FailLocal}})
		}
		out := make([]stint.Decision, 2)
		for i, want := range []string{"AA", "AA", "AA", "DD"} {
			group.Claims[0].Key = fmt.Sprint("user:", i) // all from one address
			if err := g.TakeGroups(t.Context(), []stint.Group{group}, out); err != nil || answers(out) != want {
				t.Errorf("request %d: got %s, %v, want %s", i, answers(out), err, want)
			}
		}
		if d, err := g.Take(t.Context(), group.Claims[0]); err != nil || d.Allowed || d.Limit != 3 {
			t.Errorf("alone: got %+v, %v", d, err)
		}
		local.Key = "10.0.0.2" // limits of two costs are one claim of the greater
		group.Claims[1].Cost = 2
		if err := g.TakeGroups(t.Context(), []stint.Group{group}, out); err != nil || out[0].Remaining != 1 || out[1].Remaining != 1 {
			t.Errorf("two costs: got %+v, %v", out, err)
		}
	})
}

// What the store knows is what counts when it is back. The next failure finds
// what the last one left; once nothing of that counts any more, memory begins
// anew.
func TestLocalStateOutlivesTheRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		g := mustNew(t, store, guard.Options{})
		c := claim(t, "user:2", stint.FailLocal)
		for range 4 {
			_, _ = g.Take(t.Context(), c)
		}
		for _, outage := range []struct {
			after time.Duration
			left  int64
		}{{0, 10}, {time.Second, 0}, {30 * time.Second, 5}, {2 * time.Minute, 10}} {
			time.Sleep(outage.after)
			opened(t, g, store, fails(errUnavailable), "user:1")
			for want := outage.left - 1; want >= 0; want-- {
				if d, err := g.Take(t.Context(), c); err != nil || !d.Allowed || d.Remaining != want {
					t.Fatalf("%v after the last failure: %+v, %v; want %d to remain", outage.after, d, err, want)
				}
			}
			if d, _ := g.Take(t.Context(), c); d.Allowed {
				t.Fatalf("%v after the last failure: more than the share", outage.after)
			}
			store.heal()
			time.Sleep(300 * time.Millisecond)
		}
		time.Sleep(-1 + time.Minute)
		if d, err := g.Take(t.Context(), c); err != nil || d.Degraded || d.Remaining != 9 {
			t.Errorf("got %+v, %v, want what the store knows", d, err)
		}
	})
}

// A reset ends what memory knows of a key, too.
func TestResetForgetsWhatWasDecidedLocally(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		g := mustNew(t, store, guard.Options{})
		c := claim(t, "user:2", stint.FailLocal)
		opened(t, g, store, fails(errUnavailable), "user:1")
		for range 11 {
			_, _ = g.Take(t.Context(), c)
		}
		store.heal()
		time.Sleep(time.Second)
		reset := c
		reset.Cost = stint.Forget
		if _, err := g.Take(t.Context(), reset); err != nil {
			t.Fatal(err)
		}
		opened(t, g, store, fails(errUnavailable), "user:1")
		if d, err := g.Take(t.Context(), c); err != nil || d.Remaining != 9 {
			t.Errorf("got %+v, %v, want a fresh share", d, err)
		}
	})
}

// Of two failing shards the first to be back leaves the other its state.
func TestLocalStateStaysWhileAShardFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShardedFaulty()
		g := mustNew(t, store, guard.Options{})
		opened(t, g, store.faulty, fails(errUnavailable), "a/1", "b/1")
		c := claim(t, "b/2", stint.FailLocal)
		_, _ = g.Take(t.Context(), c)
		store.befall(on("b", fails(errUnavailable)))
		time.Sleep(time.Second)
		if d, err := g.Take(t.Context(), claim(t, "a/2", stint.FailLocal)); err != nil || d.Degraded {
			t.Fatal(d, err)
		}
		if d, err := g.Take(t.Context(), c); err != nil || !d.Degraded || d.Remaining != 8 {
			t.Errorf("got %+v, %v", d, err)
		}
	})
}

// A limit too slow to be divided is closed, alone and in a group.
func TestLimitThatCannotBeDividedIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		g := mustNew(t, store, guard.Options{Nodes: 1 << 20})
		opened(t, g, store, fails(errUnavailable), "user:1")
		slow, err := stint.Spec{Limit: 1, Window: 300 * 24 * time.Hour}.Compile()
		if err != nil {
			t.Fatal(err)
		}
		c := stint.Claim{Key: "user:1", Limit: slow, Cost: 1, Policy: stint.Policy{OnFailure: stint.FailLocal}}
		for range 2 { // the second call uses the share that the first one has stored
			if d, err := g.Take(t.Context(), c); err != nil || d.Allowed || !d.Degraded || d.RetryAfter <= 0 {
				t.Errorf("got %+v, %v", d, err)
			}
		}
		out := make([]stint.Decision, 2)
		if err := g.TakeGroups(t.Context(), []stint.Group{{Claims: []stint.Claim{c, asks(t, "k", stint.FailOpen)}}}, out); err != nil || answers(out) != "DD" {
			t.Errorf("got %s, %v", answers(out), err)
		}
	})
}

func TestDegradedAnswersGrantNothingExtra(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		g := mustNew(t, store, guard.Options{})
		opened(t, g, store, fails(errUnavailable), "user:1")
		for _, p := range policies {
			c := claim(t, p.name, p.policy)
			c.Extra = 5
			if d, err := g.Take(t.Context(), c); err != nil || outline(d) != p.want {
				t.Errorf("%s: got %+v, %v", p.name, d, err)
			}
		}
	})
}

// Decided in memory, a claim is still not delayed beyond what its caller can
// use; of claims that share one local limit, the least patient says it.
func TestLocalHeedsTheGreatestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit, err := stint.Spec{Algorithm: stint.LeakyBucket, Limit: 10, Window: time.Second, Queue: 100}.Compile()
		if err != nil {
			t.Fatal(err)
		}
		store := newFaulty()
		store.befall(freezes)
		g := mustNew(t, store, guard.Options{})
		claim := func(limit stint.Limit, local *stint.Local, most time.Duration) stint.Claim {
			return stint.Claim{Key: "k", Limit: limit, Cost: 5, MaxDelay: most, Local: local, Policy: stint.Policy{OnFailure: stint.FailLocal}}
		}
		// The breaker opens during the first check, so the later checks do not wait for the frozen
		// store.
		first, err := g.Take(t.Context(), claim(limit, nil, 0))
		if err != nil || !first.Allowed {
			t.Fatal(first, err)
		}
		for _, c := range []struct {
			most    time.Duration
			allowed bool
		}{{-1, false}, {100 * time.Millisecond, false}, {time.Second, true}} {
			if d, err := g.Take(t.Context(), claim(limit, nil, c.most)); err != nil || d.Allowed != c.allowed || !d.Degraded {
				t.Errorf("within %v: %+v, %v; want allowed %v", c.most, d, err, c.allowed)
			}
		}
		shared := &stint.Local{Key: "shared", Limit: limit}
		group := func(one, other time.Duration) stint.Group {
			return stint.Group{Claims: []stint.Claim{claim(mustLimit(t, "10/m"), shared, one), claim(mustLimit(t, "10/h"), shared, other)}}
		}
		groups := []stint.Group{group(0, 0), group(0, 100*time.Millisecond), group(-1, time.Hour), group(time.Hour, 0)}
		out := make([]stint.Decision, 8)
		if err := g.TakeGroups(t.Context(), groups, out); err != nil {
			t.Fatal(err)
		}
		for i, want := range []bool{true, false, false, true} {
			if _, d := stint.Combine(groups[i].Claims, out[2*i:2*i+2]); d.Allowed != want {
				t.Errorf("group %d: %+v; want allowed %v", i, d, want)
			}
		}
	})
}
