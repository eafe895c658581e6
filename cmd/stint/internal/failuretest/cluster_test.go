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

// spread is one claim for each of the load's workers, keys of which the
// masters have a share each, and where each of them is.
func spread(t *testing.T, c *redistest.ClusterServers, limit stint.Limit) (claims []stint.Claim, slots []int) {
	t.Helper()
	for i := range workers {
		key := fmt.Sprintf("key%d", i)
		claims = append(claims, stint.Claim{Key: key, Limit: limit, Cost: 1})
		slots = append(slots, c.Slot(key)) // of a key's first part, which stands in braces
	}
	return claims, slots
}

func TestClusterMovesSlotsUnderLoad(t *testing.T) {
	skipShort(t)
	c := redistest.Cluster(t, 3, 0)
	t.Run("claims", func(t *testing.T) {
		store := newStore(t, cluster(c))
		claims, slots := spread(t, c, limitOf(t, plenty))
		judgeAllCharges(t, store, claims, moveUnderLoad(t, c, store, claims, slots))
	})
	// Two keys of a slot are apart while it moves, and charged together.
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
		judgeAllCharges(t, store, one, samples)
		judgeAllCharges(t, store, two, samples)
	})
}

// moveUnderLoad moves each slot to the next master and lets checks happen at
// every step of the way. None of them may fail.
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

// inPairs takes each claim together with one of another limit, whose key is in
// the same slot.
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

// judgeAllCharges judges the charges of every claim.
func judgeAllCharges(t *testing.T, store stint.Store, claims []stint.Claim, samples []sample) {
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

// A failover in good order loses nothing; calls that were on their way may
// have no answer.
func TestClusterFailsOverInGoodOrder(t *testing.T) {
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
	judgeAllCharges(t, store, claims, samples)
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

// takeOver lets one of three masters fail. Checks of its keys are answered by
// their policy until its replica takes over, and all others as ever. What the
// replica had not heard of is lost with the master.
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
	judgeOpen(t, there)
	for i := range spans { // that of the master never ends, but another has its keys by and by
		spans[i].to = earlier(spans[i].to, broken.Add(redistest.NodeTimeout))
	}
	f := read(there, spans, broken)
	f.normal, f.normalBar, f.opens, f.astray = back, afterPromotion, len(spans), astray(elsewhere)
	return f
}

// judgeOpen checks that every check of an open claim of plenty was let through,
// with the store or without.
func judgeOpen(t *testing.T, samples []sample) {
	t.Helper()
	for i := range samples {
		if s := &samples[i]; s.err != nil || !s.d.Allowed {
			t.Fatalf("claim %d: %+v, %v; want it let through", s.claim, s.d, s.err)
		}
	}
}

// astray counts the checks for which their server, which did not fail, was not
// asked or not waited for.
func astray(samples []sample) (n int) {
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
