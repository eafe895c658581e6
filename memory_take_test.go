package stint

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/property"
	"github.com/stintdev/stint/internal/table"
)

// triplets are stores that differ only in how they are called: by Take, by groups
// of one claim, and by the general step alone. The first two have a fast path.
type triplets struct {
	clock                   *testClock
	alone, grouped, stepped *Memory
	last                    Decision
}

func newTriplets(o MemoryOptions) *triplets {
	w := &triplets{clock: &testClock{}}
	w.clock.us.Store(wallStart)
	o.Clock = w.clock.time
	for _, m := range []**Memory{&w.alone, &w.grouped, &w.stepped} {
		*m = NewMemory(o)
		(*m).secrets = testSecrets
	}
	return w
}

// take sends one claim to all stores, and requires equal answers.
func (w *triplets) take(t testing.TB, c Claim) {
	t.Helper()
	alone, aloneErr := w.alone.Take(context.Background(), c)
	var grouped [1]Decision
	groupedErr := w.grouped.TakeGroups(context.Background(), []Group{{Claims: []Claim{c}}}, grouped[:])
	var want Decision
	wantErr := w.stepped.take(&c, &want)
	if alone != want || grouped[0] != want || (aloneErr == nil) != (wantErr == nil) || (groupedErr == nil) != (wantErr == nil) {
		t.Fatalf("%v, key %s, cost %d, extra %d, at %d, now %d:\n%+v, %v, and in a group\n%+v, %v; want\n%+v, %v",
			c.Limit, c.Key, c.Cost, c.Extra, c.At, w.clock.now(), alone, aloneErr, grouped[0], groupedErr, want, wantErr)
	}
	w.last = want
}

// kept is the state of a key as it is stored, and the reference beside it.
type kept struct {
	ref   uint32
	state table.State
	times string // the times of a log
}

func (m *Memory) kept(key string, l Limit) (k kept) {
	id := m.secrets.identify(key, &l.n.salt)
	shard := m.table.Shard(id)
	shard.Lock()
	shard = m.table.Relock(shard, id)
	defer shard.Unlock()
	slot := shard.Find(id)
	if slot == nil {
		return k
	}
	if times := shard.Wide(slot); times != nil {
		return kept{ref: slot.Ref(), times: fmt.Sprint(times)}
	}
	return kept{ref: slot.Ref(), state: slot.State}
}

// agree checks that all stores hold the same states to the last bit.
func (w *triplets) agree(t testing.TB, keys []string, limits []Limit) {
	t.Helper()
	for _, m := range []*Memory{w.alone, w.grouped} {
		if got, want := m.Stats(), w.stepped.Stats(); got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
		for _, key := range keys {
			for _, l := range limits {
				if got, want := m.kept(key, l), w.stepped.kept(key, l); got != want {
					t.Fatalf("%v, key %s: keeps %v, want %v", l, key, got, want)
				}
			}
		}
	}
}

// variedLimits returns limits of few scopes, so that limits share states.
func variedLimits(t testing.TB) (limits []Limit) {
	for _, s := range []Spec{
		{RefillRate: "1", Capacity: 10}, {RefillRate: "1.67", Capacity: 3}, {RefillRate: "0.00123457", Capacity: 1000},
		{RefillRate: "100000000", Capacity: 1_000_000_000}, {RefillRate: "0.20000001", Capacity: 99_991}, {RefillRate: "33.333333", Capacity: 1},
		{Algorithm: GCRA, Limit: 10, Window: time.Minute}, {Algorithm: GCRA, Limit: 7, Window: time.Minute, Capacity: 3},
		{Algorithm: LeakyBucket, Limit: 10, Window: time.Minute, Queue: 5},
		{Algorithm: FixedWindow, Limit: 10, Window: time.Minute}, {Algorithm: FixedWindow, Limit: 3, Window: time.Minute},
		{Algorithm: SlidingWindowLog, Limit: 10, Window: time.Minute},
	} {
		s.Name = "n"
		limits = append(limits, mustCompile(t, s))
	}
	return limits
}

// crowd returns keys whose states are all in the first shard of an empty store.
func crowd(m *Memory, l Limit, n int) (keys []string) {
	for i := 0; len(keys) < n; i++ {
		key := fmt.Sprint("crowd", i)
		if m.table.Shard(m.secrets.identify(key, &l.n.salt)).Number() == 0 {
			keys = append(keys, key)
		}
	}
	return keys
}

// drawClaim draws a claim with a cost near what is left, most often a plain one.
func (w *triplets) drawClaim(t *property.T, key string, l Limit) Claim {
	near := property.PickFrom(t,
		func() int64 { return t.Int64("cost", 0, 2) },
		func() int64 { return property.Pick(t, "cost", w.last.Remaining, w.last.Remaining+1) })
	c := Claim{Key: key, Limit: l, Cost: near}
	switch t.Int("kind", 0, 9) {
	case 0:
		c.Extra, c.At = t.Int64("extra", 0, 2), property.Pick[int64](t, "at", 0, w.last.At, 1)
	case 1:
		c.Cost, c.At = -c.Cost, property.Pick[int64](t, "at", 0, w.last.At, 1)
	case 2:
		c.Cost = property.PickFrom(t,
			func() int64 { return edgesOf(t, "far cost", MaxCost+1) },
			func() int64 { return Forget })
	}
	return c
}

// pass moves the clock to where an answer may change, or back.
func (w *triplets) pass(t *property.T) {
	wait := property.Pick[time.Duration](t, "wait", w.last.RetryAfter, w.last.NextAfter, w.last.ResetAfter, 0, 20*time.Second, -20*time.Second, time.Hour, 300*24*time.Hour)
	if wait == Never {
		wait = 0
	}
	w.clock.us.Add(wait.Microseconds() + t.Int64("off", -2, 2))
}

// The fast paths give the same answers and states as the general step, to the
// last bit, for any claims. Meanwhile limits change, other stores use the same
// limits, shards are split, states are evicted, and time runs back.
func TestShortWaysAreTheStep(t *testing.T) {
	limits := variedLimits(t)
	other := NewMemory(MemoryOptions{})
	crowded := limits[2]
	for name, o := range map[string]MemoryOptions{
		"one shard": {MaxKeys: 1000}, "a bound": {MaxKeys: 8}, "shards that part": {MaxKeys: 1 << 20}, "keeping all": {KeepAll: true, MaxKeys: 8},
	} {
		keys := crowd(newTriplets(o).alone, crowded, min(700, max(50, o.MaxKeys)))
		t.Run(name, func(t *testing.T) {
			property.Check(t, func(t *property.T) {
				w := newTriplets(o)
				for range t.Int("rounds", 1, 4) {
					switch property.Pick(t, "happens", "nothing", "crowd", "close") {
					case "crowd":
						for _, key := range keys {
							w.take(t, Claim{Key: key, Limit: crowded, Cost: 1})
						}
					case "close":
						_, _, _ = w.alone.Close(), w.grouped.Close(), w.stepped.Close()
					}
					few := []Limit{property.Pick(t, "limits", limits...)}
					if t.Bool("two limits") {
						few = append(few, property.Pick(t, "limits", limits...))
					}
					for range t.Int("takes", 1, 20) {
						c := w.drawClaim(t, property.Pick(t, "key", keys[:2]...), property.Pick(t, "limit", few...))
						if t.Bool("used elsewhere") {
							_, _ = other.Take(context.Background(), c)
						}
						w.pass(t)
						w.take(t, c)
					}
				}
				w.agree(t, keys[:2], limits)
				w.agree(t, keys, []Limit{crowded})
			})
		})
	}
}

// A goroutine that waits for a shard during a split, or finds it split, charges
// the state at its new place.
func TestTakesAtOnceAreExactWhileShardsAreParted(t *testing.T) {
	const limit = 4000
	m, _ := newTestMemory(MemoryOptions{})
	l := mustCompile(t, Spec{Limit: limit, Window: time.Hour})
	keys := crowd(m, l, 6000)
	hot, fillers := keys[:4], keys[4:]
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range limit * len(hot) {
				if mustTake(t, m, Claim{Key: hot[i%len(hot)], Limit: l, Cost: 1}).Allowed {
					admitted.Add(1)
				}
				if fill := i*4 + worker; fill < len(fillers) {
					mustTake(t, m, Claim{Key: fillers[fill], Limit: l, Cost: 1})
				}
			}
		})
	}
	wg.Wait()
	if s := m.Stats(); admitted.Load() != int64(limit*len(hot)) || s.Keys != len(keys) {
		t.Errorf("%d admitted, want %d; %d keys, want %d", admitted.Load(), limit*len(hot), s.Keys, len(keys))
	}
}
