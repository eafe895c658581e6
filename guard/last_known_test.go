package guard_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
)

// fleet is several nodes over one store.
type fleet struct {
	nodes  []*guard.Store
	stores []*counted // what each node sees of the store
}

func newFleet(t *testing.T, nodes int) *fleet {
	t.Helper()
	f, shared := &fleet{}, stint.NewMemory(stint.MemoryOptions{})
	for range nodes {
		store := &counted{faulty: &faulty{Store: shared}}
		store.nodes.Store(int64(nodes))
		f.nodes, f.stores = append(f.nodes, mustNew(t, store, guard.Options{})), append(f.stores, store)
	}
	return f
}

// fail ends the answers of the store for all nodes.
func (f *fleet) fail() {
	for _, s := range f.stores {
		s.befall(fails(errUnavailable))
	}
}

// take decides a claim at one node, alone or as a group.
func (f *fleet) take(t *testing.T, node int, c stint.Claim, grouped bool) stint.Decision {
	t.Helper()
	out := make([]stint.Decision, 1)
	var err error
	if grouped {
		err = f.nodes[node].TakeGroups(t.Context(), []stint.Group{{Claims: []stint.Claim{c}}}, out)
	} else {
		out[0], err = f.nodes[node].Take(t.Context(), c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// drain returns how many checks one node admits in a row.
func (f *fleet) drain(t *testing.T, node int, c stint.Claim, grouped bool) (n int64) {
	t.Helper()
	for f.take(t, node, c, grouped).Allowed {
		n++
	}
	return n
}

func knownClaim(l stint.Limit) stint.Claim {
	return stint.Claim{Key: "user:1", Limit: l, Cost: 1, Policy: stint.Policy{OnFailure: stint.FailLastKnown}}
}

func specs(limit int64, window time.Duration) map[string]stint.Spec {
	return map[string]stint.Spec{
		"bucket":  {Limit: limit, Window: window},
		"gcra":    {Algorithm: stint.GCRA, Limit: limit, Window: window, Capacity: limit},
		"leaky":   {Algorithm: stint.LeakyBucket, Limit: limit, Window: window, Queue: limit - 1},
		"window":  {Algorithm: stint.FixedWindow, Limit: limit, Window: window},
		"counter": {Algorithm: stint.SlidingWindowCounter, Limit: limit, Window: window},
		"log":     {Algorithm: stint.SlidingWindowLog, Limit: limit, Window: window},
		"quota":   {Algorithm: stint.Quota, Limit: limit, Period: "day"},
	}
}

// A node continues from its part of what the store last said remains, and from its
// whole share for a key that it does not know.
func TestLastKnownContinuesFromWhatRemained(t *testing.T) {
	for name, spec := range specs(10, time.Hour) {
		for _, c := range []struct{ nodes, used, want int64 }{
			{1, 0, 10}, {1, 7, 3}, {1, 10, 0}, {2, 4, 3}, {2, 10, 0}, {3, 0, 4}, {3, 9, 1}, {3, 10, 0},
		} {
			for _, grouped := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d nodes/%d used/grouped=%t", name, c.nodes, c.used, grouped), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						f, claim := newFleet(t, int(c.nodes)), knownClaim(mustCompile(t, spec))
						for range c.used {
							f.take(t, 0, claim, grouped)
						}
						f.fail()
						if n := f.drain(t, 0, claim, grouped); n != c.want {
							t.Errorf("%d were admitted, want %d", n, c.want)
						}
						claim.Key = "unknown"
						if n, want := f.drain(t, 0, claim, grouped), (10-1)/c.nodes+1; n != want {
							t.Errorf("%d of an unknown key were admitted, want the share of %d", n, want)
						}
					})
				})
			}
		}
	}
}

// Claims are counted by their own policy, alone and in groups.
func TestLastKnownIsCountedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, known := newFleet(t, 1), knownClaim(mustLimit(t, "10/h"))
		local := stint.Claim{Key: known.Key, Limit: mustLimit(t, "10/m"), Cost: 1, Policy: stint.Policy{OnFailure: stint.FailLocal}}
		f.fail()
		f.take(t, 0, known, false)
		f.take(t, 0, known, true)
		if err := f.nodes[0].TakeGroups(t.Context(), []stint.Group{{Claims: []stint.Claim{known, local}}}, make([]stint.Decision, 2)); err != nil {
			t.Fatal(err)
		}
		if s := f.nodes[0].Stats(); s.LastKnown != 3 || s.Local != 1 {
			t.Errorf("%d by last known and %d by local, want 3 and 1", s.LastKnown, s.Local)
		}
	})
}

// A denial, a peek and the answer of a denied group are knowledge as well.
func TestLastKnownLearnsFromEveryAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFleet(t, 2), knownClaim(mustLimit(t, "10/h"))
		used, full := c, c
		used.Cost, full.Key = 8, "user:2"
		f.take(t, 0, used, false)
		for name, learn := range map[string]func(node int, c stint.Claim){
			"peek":   func(node int, c stint.Claim) { c.Cost = 0; f.take(t, node, c, false) },
			"denial": func(node int, c stint.Claim) { c.Cost = 5; f.take(t, node, c, true) },
			"denied group": func(node int, c stint.Claim) {
				other := c
				other.Limit, other.Cost = mustLimit(t, "1/m"), 2
				out := make([]stint.Decision, 2)
				if err := f.nodes[node].TakeGroups(t.Context(), []stint.Group{{Claims: []stint.Claim{c, other}}}, out); err != nil || answers(out) != "ad" {
					t.Fatal(answers(out), err)
				}
			},
		} {
			learn(1, c)
			f.fail()
			if d := f.take(t, 1, stint.Claim{Key: c.Key, Limit: c.Limit, Policy: c.Policy}, false); d.Remaining != 1 || !d.Degraded {
				t.Errorf("%s: got %+v, want 1 of 2 remaining", name, d)
			}
			f.stores[0].heal()
			f.stores[1].heal()
			time.Sleep(time.Second)
		}
	})
}

// What the node knows refills by its part of the rate, also before the failure, and ends
// with its window.
func TestLastKnownRefills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2)
		bucket, window := knownClaim(mustLimit(t, "60/m")), knownClaim(mustCompile(t, stint.Spec{Algorithm: stint.FixedWindow, Limit: 60, Window: time.Minute}))
		for range 60 {
			f.take(t, 0, bucket, false)
			f.take(t, 0, window, false)
		}
		time.Sleep(4 * time.Second)
		f.fail()
		time.Sleep(6 * time.Second)
		if n := f.drain(t, 0, bucket, false); n != 5 {
			t.Errorf("a bucket of 1/s, shared by 2 nodes, admitted %d after 10 s, want 5", n)
		}
		if n := f.drain(t, 0, window, false); n != 0 {
			t.Errorf("a used window admitted %d", n)
		}
		time.Sleep(50 * time.Second)
		if n := f.drain(t, 0, window, false); n != 30 {
			t.Errorf("the next window admitted %d, want 30", n)
		}
	})
}

// A refund and a reset raise what the node knows.
func TestLastKnownFollowsRefundsAndResets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ cost, want int64 }{{-4, 5}, {stint.Forget, 10}} {
			f, take := newFleet(t, 1), knownClaim(mustLimit(t, "10/h"))
			take.Cost = 9
			back := take
			back.At, back.Cost = f.take(t, 0, take, false).At, c.cost
			f.take(t, 0, back, false)
			f.fail()
			if take.Cost = 1; f.drain(t, 0, take, false) != c.want {
				t.Errorf("cost %d: want %d admitted", c.cost, c.want)
			}
		}
	})
}

// Concurrent answers for one key lower the state once each.
func TestLastKnownOfAHotKeyIsExact(t *testing.T) {
	store, c := newFaulty(), knownClaim(mustLimit(t, "2000/h"))
	g := mustNew(t, store, guard.Options{Local: func() stint.Store { return yielding{stint.NewMemory(stint.MemoryOptions{})} }})
	var callers sync.WaitGroup
	for range 32 {
		callers.Go(func() {
			for range 50 {
				if _, err := g.Take(t.Context(), c); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	store.befall(fails(errUnavailable))
	for want := int64(399); want >= 0; want-- {
		if d, err := g.Take(t.Context(), c); err != nil || !d.Allowed || d.Remaining != want {
			t.Fatalf("got %+v, %v, want %d to remain", d, err, want)
		}
	}
}

// yielding lets other goroutines run after each decision.
type yielding struct{ stint.Store }

func (s yielding) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	d, err := s.Store.Take(ctx, c)
	runtime.Gosched()
	return d, err
}

// After a failure, what the store admits is charged to the state in memory, although much
// remains in the store. Otherwise the state would refill beside the store.
func TestAdmissionsAfterAFailureAreCharged(t *testing.T) {
	for _, policy := range inMemory {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, c := newFleet(t, 1), knownClaim(mustLimit(t, "60/m"))
				c.Policy.OnFailure = policy
				f.fail()
				if n := f.drain(t, 0, c, false); n != 60 {
					t.Fatalf("%d were admitted, want the share of 60", n)
				}
				f.stores[0].heal()
				for range 15 {
					time.Sleep(2 * time.Second)
					if d := f.take(t, 0, c, false); d.Degraded || d.Remaining < 50 {
						t.Fatal(d)
					}
				}
				f.fail()
				if n := f.drain(t, 0, c, false); n != 15 {
					t.Errorf("%d were admitted, want 15 of the 30 that refilled", n)
				}
			})
		})
	}
}

// Knowledge of one rule charges nothing to the local share of another.
func TestLastKnownLeavesLocalSharesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFleet(t, 1), knownClaim(mustLimit(t, "10/h"))
		local := c
		local.Key, local.Policy.OnFailure = "user:2", stint.FailLocal
		for outage, want := range []int64{10, 0} {
			for range 3 {
				f.take(t, 0, c, outage == 1)
				f.take(t, 0, local, outage == 1)
			}
			f.fail()
			if n := f.drain(t, 0, local, false); n != want {
				t.Errorf("failure %d: the local share admitted %d, want %d", outage, n, want)
			}
			f.stores[0].heal()
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Hour) // no local decision counts any more
		for range 3 {
			f.take(t, 0, local, false)
		}
		f.fail()
		if n := f.drain(t, 0, local, false); n != 10 {
			t.Errorf("after the end of the local decisions the share admitted %d, want 10", n)
		}
	})
}

// A server that answers without its store knows nothing of what remains.
func TestLastKnownIgnoresDegradedAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := degrading{stint.NewMemory(stint.MemoryOptions{})}
		broken := &faulty{Store: answers}
		g, c := mustNew(t, broken, guard.Options{}), knownClaim(mustLimit(t, "10/h"))
		c.Cost = 10
		if _, err := g.Take(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		broken.befall(fails(errUnavailable))
		if d, err := g.Take(t.Context(), c); err != nil || !d.Allowed {
			t.Errorf("got %+v, %v, want the whole share", d, err)
		}
	})
}

// degrading marks every decision as degraded.
type degrading struct{ stint.Store }

func (s degrading) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	d, err := s.Store.Take(ctx, c)
	d.Degraded = true
	return d, err
}

// What is known is bounded in keys. Keys that callers make up, and limits that they bring,
// do not displace the used keys of rules.
func TestLastKnownIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var memory *stint.Memory
		store := newFaulty()
		g := mustNew(t, store, guard.Options{Local: func() stint.Store {
			memory = stint.NewMemory(stint.MemoryOptions{MaxKeys: 1000})
			return memory
		}})
		take := func(key string, s stint.Spec, cost int64) stint.Decision {
			s.Limit, s.Window = 20, time.Hour
			c := knownClaim(mustCompile(t, s))
			c.Key, c.Cost = key, cost
			d, err := g.Take(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		rule := stint.Spec{Rule: "orders"}
		for i := range 50 {
			take(fmt.Sprint("used", i), rule, 20)
		}
		for i := range 20_000 {
			take(fmt.Sprint("new", i), rule, 1)
			take(fmt.Sprint("caller", i), stint.Spec{Name: fmt.Sprint(i % 300), FromCaller: true}, 20)
		}
		if s := memory.Stats(); s.Keys > 1000 || s.Callers.Keys > 1000 {
			t.Errorf("the node knows %+v", s)
		}
		store.befall(fails(errUnavailable))
		for i := range 50 {
			if d := take(fmt.Sprint("used", i), rule, 1); d.Allowed {
				t.Errorf("key %d: what was known is lost: %+v", i, d)
			}
		}
	})
}

// A check allocates no more than one of an open claim: the context of its call.
func TestLastKnownAllocatesNothing(t *testing.T) {
	g, c := mustNew(t, stint.NewMemory(stint.MemoryOptions{}), guard.Options{}), knownClaim(mustLimit(t, "1000000/h"))
	if n := testing.AllocsPerRun(1000, func() { _, _ = g.Take(t.Context(), c) }); n > 1 {
		t.Errorf("a check allocates %v times", n)
	}
}

// The bound of last_known.go, against a model: random traffic of several nodes, then a
// failure with more traffic than any limit admits. Each node admits at most its part of the
// Remaining that it last saw, at most its share, and what its part of the rate refills.
func TestLastKnownKeepsItsBound(t *testing.T) {
	for name, spec := range specs(60, time.Hour) {
		for seed := range uint64(8) {
			t.Run(fmt.Sprintf("%s/%d", name, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { modelFailure(t, spec, rand.New(rand.NewPCG(seed, 1))) })
			})
		}
	}
}

func modelFailure(t *testing.T, spec stint.Spec, random *rand.Rand) {
	nodes := 1 + random.IntN(5)
	f, c, grouped := newFleet(t, nodes), knownClaim(mustCompile(t, spec)), random.IntN(2) == 0
	share := int64(60-1)/int64(nodes) + 1
	remaining, seen := make([]int64, nodes), make([]time.Time, nodes)
	for i := range nodes {
		remaining[i], seen[i] = share*int64(nodes), time.Now() // nothing is known
	}
	for range random.IntN(100) {
		time.Sleep(time.Duration(random.IntN(10_000)) * time.Millisecond)
		node := random.IntN(nodes)
		c.Cost = int64(random.IntN(4))
		remaining[node], seen[node] = f.take(t, node, c, grouped).Remaining, time.Now()
	}
	f.fail()
	begun, admitted := time.Now(), make([]int64, nodes)
	for time.Since(begun) < 10*time.Minute {
		for i := range nodes {
			c.Cost = 1
			admitted[i] += f.drain(t, i, c, grouped)
		}
		time.Sleep(time.Duration(random.IntN(20_000)) * time.Millisecond)
	}
	total, most := int64(0), int64(0)
	for i := range nodes {
		first := min((remaining[i]+int64(nodes)-1)/int64(nodes), share)
		refilled := 0.0
		if c.Limit.Rate() != nil {
			rate, _ := c.Limit.Rate().Float64()
			refilled = 1 + rate/float64(nodes)*time.Since(seen[i]).Seconds()
		}
		if admitted[i] > first+int64(refilled) || admitted[i] < first-2 {
			t.Errorf("node %d of %d admitted %d, want %d and at most %.1f refilled", i, nodes, admitted[i], first, refilled)
		}
		total, most = total+admitted[i], most+first+int64(refilled)
	}
	t.Logf("%d nodes admitted %d of at most %d", nodes, total, most)
}
