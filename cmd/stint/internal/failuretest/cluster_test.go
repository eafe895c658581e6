package failuretest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/internal/redistest"
)

// spread returns one claim for each worker of the load, with keys spread over the
// masters, and the slot of each key.
func spread(t *testing.T, c *redistest.ClusterServers, limit stint.Limit) (claims []stint.Claim, slots []int) {
	t.Helper()
	for i := range workers {
		key := fmt.Sprintf("key%d", i)
		claims = append(claims, stint.Claim{Key: key, Limit: limit, Cost: 1})
		slots = append(slots, c.Slot(key)) // the slot of the first part of the key, which is in braces
	}
	return claims, slots
}

func TestClusterMovesSlotsUnderLoad(t *testing.T) {
	skipShort(t)
	c := redistest.Cluster(t, 3, 0)
	t.Run("claims", func(t *testing.T) {
		store := newStore(t, cluster(c))
		claims, slots := spread(t, c, limitOf(t, plenty))
		checkAllCharges(t, store, claims, moveUnderLoad(t, c, store, claims, slots))
	})
	// While a slot moves, its keys are on two servers. A group of them is still charged
	// together.
	t.Run("groups", func(t *testing.T) {
		other, err := stint.Spec{Rule: "failures", Name: "other", Limit: plenty, Window: stint.MaxWindow, Algorithm: stint.FixedWindow}.Compile()
		if err != nil {
			t.Fatal(err)
		}
		store := newStore(t, cluster(c))
		first, err := stint.Spec{Rule: "failures", Name: "first", Limit: plenty, Window: stint.MaxWindow, Algorithm: stint.SlidingWindowCounter}.Compile()
		if err != nil {
			t.Fatal(err)
		}
		one, slots := spread(t, c, first)
		two, _ := spread(t, c, other)
		samples := moveUnderLoad(t, c, &inPairs{Store: store, other: other}, one, slots)
		checkAllCharges(t, store, one, samples)
		checkAllCharges(t, store, two, samples)
	})
}

// moveUnderLoad moves each slot to the next master, with checks at every step of the
// move. No check may fail.
func moveUnderLoad(t *testing.T, c *redistest.ClusterServers, store stint.Store, claims []stint.Claim, slots []int) []sample {
	t.Helper()
	awaitAnswer(t, store, claims[0])
	l := start(t, store, claims...)
	l.await(t, normal)
	begun := time.Now()
	for _, slot := range slots {
		to := c.Nodes[(slices.Index(c.Nodes, c.Owner(slot))+1)%len(c.Nodes)]
		c.BeginMove(slot, to)
		l.await(t, workers)
		for c.MoveKey(slot, to) {
			l.await(t, workers)
		}
		c.EndMove(slot, to)
	}
	t.Logf("%d slots moved within %v", len(slots), time.Since(begun))
	l.await(t, normal)
	samples := l.stop()
	t.Log(read(samples, nil, begun))
	for i := range samples {
		if err := samples[i].err; err != nil {
			t.Fatalf("a check failed while slots moved: %v", err)
		}
	}
	return samples
}

// inPairs takes each claim together with a claim of another limit, whose key is in the
// same slot.
type inPairs struct {
	stint.Store

	other stint.Limit
}

func (p *inPairs) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	also := c
	also.Limit = p.other
	var out [2]stint.Decision
	err := p.TakeGroups(ctx, []stint.Group{{Claims: []stint.Claim{c, also}}}, out[:])
	return out[0], err
}

// checkAllCharges checks the charges of every claim.
func checkAllCharges(t *testing.T, store stint.Store, claims []stint.Claim, samples []sample) {
	t.Helper()
	var all charges
	for i := range claims {
		c := chargesOf(t, store, claims, i, samples, nil)
		if c.counted < c.answered || c.counted > c.answered+c.unknown {
			t.Errorf("%s: the store counts %d, want from %d to %d", claims[i].Key, c.counted, c.answered, c.answered+c.unknown)
		}
		all.answered, all.unknown, all.counted = all.answered+c.answered, all.unknown+c.unknown, all.counted+c.counted
	}
	t.Logf("%d checks answered, %d without an answer, %d in the store", all.answered, all.unknown, all.counted)
}

// A coordinated failover loses no charge. Calls in flight may get no answer.
func TestClusterFailsOverByCoordination(t *testing.T) {
	skipShort(t)
	c := redistest.Cluster(t, 3, 3)
	store := newStore(t, cluster(c))
	claims, _ := spread(t, c, limitOf(t, plenty))
	awaitAnswer(t, store, claims[0])
	l := start(t, store, claims...)
	l.await(t, normal)
	begun := time.Now()
	c.Failover(c.Replica(c.Nodes[0]))
	t.Logf("normal %v after it began", l.awaitNormal(t, begun))
	samples := l.stop()
	t.Log(read(samples, nil, begun))
	checkAllCharges(t, store, claims, samples)
}

func TestClusterReplacesAMaster(t *testing.T) {
	skipShort(t)
	for _, c := range []struct {
		name   string
		strike func(*redistest.Process)
	}{
		{"killed", (*redistest.Process).Kill},
		{"frozen", (*redistest.Process).Freeze},
	} {
		t.Run(c.name, func(t *testing.T) {
			measure(t, func(t *testing.T) *figures { return takeOver(t, c.strike) })
		})
	}
}

// takeOver makes one of three masters fail. The failure policy decides checks of its
// keys until its replica takes over; other checks are not affected. Charges that the
// replica had not received are lost with the master.
func takeOver(t *testing.T, strike func(*redistest.Process)) *figures {
	t.Helper()
	c := redistest.Cluster(t, 3, 3, "--cluster-require-full-coverage", "no")
	n := newNode(t, cluster(c), patient())
	claims, slots := spread(t, c, limitOf(t, plenty))
	for i := range claims {
		awaitAnswer(t, n, claims[i])
	}
	victim := c.Owner(slots[0])
	hit := keysOn(c, victim, slots)
	l := start(t, n, claims...)
	l.await(t, normal)

	broken := time.Now()
	strike(victim)
	c.AwaitTakeover(slots[0], victim)
	taken := time.Now()
	back := l.awaitNormal(t, taken)

	samples, spans := l.stop(), n.changes.open()
	var there, elsewhere []sample
	for _, s := range samples {
		if hit[s.claim] {
			there = append(there, s)
		} else {
			elsewhere = append(elsewhere, s)
		}
	}
	t.Logf("%d of %d keys were on the master that failed, taken over after %v; elsewhere: %v", len(hit), len(claims), taken.Sub(broken), read(elsewhere, nil, broken))
	checkOpen(t, there)
	for i := range spans { // the span of the failed master never ends, but another server takes over its keys
		spans[i].to = earlier(spans[i].to, broken.Add(redistest.NodeTimeout))
	}
	f := read(there, spans, broken)
	f.normal, f.normalBar, f.opens, f.misrouted = back, afterPromotion, len(spans), misrouted(elsewhere)
	return f
}

// checkOpen checks that every check of an open claim with a large limit was allowed,
// with or without the store.
func checkOpen(t *testing.T, samples []sample) {
	t.Helper()
	for i := range samples {
		if s := &samples[i]; s.err != nil || !s.d.Allowed {
			t.Fatalf("claim %d: %+v, %v; want it let through", s.claim, s.d, s.err)
		}
	}
}

// misrouted counts the checks that were answered without their server although it had
// not failed.
func misrouted(samples []sample) (n int) {
	for i := range samples {
		if s := &samples[i]; s.err != nil || s.d.Degraded && s.took < guard.DefaultDeadline {
			n++
		}
	}
	return n
}

func keysOn(c *redistest.ClusterServers, master *redistest.Process, slots []int) map[int]bool {
	hit := map[int]bool{}
	for i, slot := range slots {
		if c.Owner(slot) == master {
			hit[i] = true
		}
	}
	return hit
}
