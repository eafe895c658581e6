package stint

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// wallStart is the first time of the clocks that tests set.
const wallStart = int64(1_700_000_000_000_000)

// testClock is a clock that tests set.
type testClock struct{ us atomic.Int64 }

func (c *testClock) now() int64      { return c.us.Load() }
func (c *testClock) time() time.Time { return time.UnixMicro(c.us.Load()) }

func (c *testClock) pass(d time.Duration) { c.us.Add(d.Microseconds()) }

func newTestMemory(o MemoryOptions) (*Memory, *testClock) {
	c := &testClock{}
	c.us.Store(wallStart)
	o.Clock = c.time
	return NewMemory(o), c
}

func mustCompile(t testing.TB, s Spec) Limit {
	t.Helper()
	l, err := s.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func mustTake(t testing.TB, s Store, c Claim) Decision {
	t.Helper()
	d, err := s.Take(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// everyAlgorithm returns a limit of each algorithm that allows 10 and then nothing for a while.
func everyAlgorithm() []Spec {
	return []Spec{
		{Limit: 10, Window: time.Hour},
		{Algorithm: GCRA, Limit: 10, Window: time.Hour},
		{Algorithm: FixedWindow, Limit: 10, Window: 24 * time.Hour},
		{Algorithm: SlidingWindowCounter, Limit: 10, Window: time.Hour},
		{Algorithm: SlidingWindowCounter, Limit: 10, Window: time.Hour, Buckets: 10},
		{Algorithm: SlidingWindowLog, Limit: 10, Window: time.Hour},
		{Algorithm: LeakyBucket, Limit: 10, Window: time.Hour, Queue: 9},
		{Algorithm: Quota, Limit: 10, Period: "month"},
	}
}

func TestMemoryKeepsEveryAlgorithm(t *testing.T) {
	for _, s := range everyAlgorithm() {
		m, _ := newTestMemory(MemoryOptions{})
		l := mustCompile(t, s)
		for i := range int64(12) {
			d := mustTake(t, m, Claim{Key: "a", Limit: l, Cost: 1})
			if d.Allowed != (i < 10) || d.Remaining != max(0, 9-i) {
				t.Errorf("%v: take %d = %+v", l, i, d)
			}
		}
		mustTake(t, m, Claim{Key: "a", Limit: l, Cost: Forget})
		if d := mustTake(t, m, Claim{Key: "a", Limit: l}); d.Remaining != 10 || m.Stats().Keys != 0 {
			t.Errorf("%v: after Forget: %+v, %+v", l, d, m.Stats())
		}
		if held := m.Stats().Keys; held != 0 {
			t.Errorf("%v: %d keys after Forget", l, held)
		}
	}
}

func TestMemoryAdmitsExactlyTheLimitAtOnce(t *testing.T) {
	for _, s := range everyAlgorithm() {
		s.Limit *= 100
		if s.Queue > 0 {
			s.Queue = 999
		}
		m, _ := newTestMemory(MemoryOptions{})
		l := mustCompile(t, s)
		var admitted atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 250 {
					if d, err := m.Take(context.Background(), Claim{Key: "hot", Limit: l, Cost: 1}); err == nil && d.Allowed {
						admitted.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if admitted.Load() != 1000 {
			t.Errorf("%v: %d admitted at once, want 1000", l, admitted.Load())
		}
	}
}

func TestMemoryKeepsStatesApart(t *testing.T) {
	m, _ := newTestMemory(MemoryOptions{})
	var limits []Limit
	for _, s := range []Spec{
		{Limit: 10, Window: time.Hour},
		{Limit: 10, Window: time.Hour, Name: "other"},
		{Limit: 10, Window: time.Hour, Rule: "r"},
		{Limit: 10, Window: time.Hour, Namespace: "r"},
		{Limit: 10, Window: 2 * time.Hour, Name: "token_bucket:1h"},
	} {
		limits = append(limits, mustCompile(t, s))
	}
	for _, key := range []string{"a", "b", JoinKey("a", "b"), JoinKey("a", "b", "")} {
		for _, l := range limits {
			if d := mustTake(t, m, Claim{Key: key, Limit: l, Cost: 1}); d.Remaining != 9 {
				t.Errorf("%q under %v of %q: remaining %d, want a state of its own", key, l, l.Rule(), d.Remaining)
			}
		}
	}
}

func TestMemoryChangedLimitKeepsWhatWasUsed(t *testing.T) {
	m, _ := newTestMemory(MemoryOptions{})
	was := mustCompile(t, Spec{Limit: 10, Window: time.Hour, Name: "n"})
	is := mustCompile(t, Spec{Limit: 7, Window: time.Hour, Name: "n"})
	mustTake(t, m, Claim{Key: "a", Limit: was, Cost: 6})
	if d := mustTake(t, m, Claim{Key: "a", Limit: is, Cost: 1}); d.Remaining != 3 {
		t.Errorf("remaining %d, want 3", d.Remaining)
	}
	if d := mustTake(t, m, Claim{Key: "a", Limit: was, Cost: 1}); d.Remaining != 2 {
		t.Errorf("remaining %d, want 2", d.Remaining)
	}
}

func TestMemoryEqualLimitsAreOne(t *testing.T) {
	m, _ := newTestMemory(MemoryOptions{})
	other, _ := newTestMemory(MemoryOptions{})
	for range 100 {
		l := mustCompile(t, PerHour(1000))
		mustTake(t, m, Claim{Key: "a", Limit: l, Cost: 1})
		mustTake(t, other, Claim{Key: "a", Limit: l, Cost: 1})
		mustTake(t, m, Claim{Key: "a", Limit: l, Cost: 1})
	}
	if n := m.limits.size(); n != 1 {
		t.Errorf("%d limits registered, want 1", n)
	}
	if d := mustTake(t, m, Claim{Key: "a", Limit: mustCompile(t, PerHour(1000))}); d.Remaining != 800 {
		t.Errorf("remaining %d, want 800", d.Remaining)
	}
}

func TestMemoryRefusesBadClaims(t *testing.T) {
	m, _ := newTestMemory(MemoryOptions{})
	l := mustCompile(t, PerMinute(10))
	for name, c := range map[string]Claim{
		"zero limit":     {Key: "a", Cost: 1},
		"empty key":      {Limit: l, Cost: 1},
		"long key":       {Key: string(make([]byte, MaxKey+1)), Limit: l},
		"great cost":     {Key: "a", Limit: l, Cost: MaxCost + 1},
		"greatest cost":  {Key: "a", Limit: l, Cost: math.MaxInt64},
		"least cost":     {Key: "a", Limit: l, Cost: -MaxCost - 1},
		"negative extra": {Key: "a", Limit: l, Extra: -1},
		"great extra":    {Key: "a", Limit: l, Extra: MaxCost + 1},
		"negative at":    {Key: "a", Limit: l, Cost: -1, At: -1},
		"great at":       {Key: "a", Limit: l, Cost: -1, At: math.MaxInt64},
	} {
		_, err := m.Take(context.Background(), c)
		var e *Error
		if !errors.As(err, &e) || e.Code != CodeInvalid || e.Mend == "" {
			t.Errorf("%s: %v, want CodeInvalid with a mend", name, err)
		}
		err = m.TakeGroups(context.Background(), []Group{{Claims: []Claim{c}}}, make([]Decision, 1))
		var g *GroupsError
		if !errors.As(err, &g) || !errors.As(err, &e) || e.Code != CodeInvalid {
			t.Errorf("%s in a group: %v", name, err)
		}
	}
	if m.Stats().Keys != 0 {
		t.Errorf("bad claims left %d keys", m.Stats().Keys)
	}
}

// A store without options follows the time of a synctest bubble. The time stands
// still while a goroutine in the bubble runs, so the processor's counter cannot
// be measured there, and ProcessorClock has no effect.
func TestMemoryFollowsTheTimeOfABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := mustCompile(t, PerMinute(1))
		for _, store := range []*Memory{NewMemory(MemoryOptions{}), NewMemory(MemoryOptions{ProcessorClock: true})} {
			for i, want := range []bool{true, false, true} {
				time.Sleep(time.Duration(i) * 20 * time.Second)
				d := mustTake(t, store, Claim{Key: "k", Limit: limit, Cost: 1})
				if now := time.Now().UnixMicro(); d.Allowed != want || d.At != now {
					t.Errorf("take %d: %+v at %d, want allowed %t", i, d, now, want)
				}
			}
		}
	})
}

func TestMemoryTakeAllocatesNothing(t *testing.T) {
	for _, o := range []MemoryOptions{{}, {ProcessorClock: true}} {
		m := NewMemory(o)
		for _, s := range everyAlgorithm() {
			l := mustCompile(t, s)
			var store Store = m
			mustTake(t, store, Claim{Key: "a", Limit: l, Cost: 10})
			for _, c := range []Claim{{Key: "a", Limit: l, Cost: 1}, {Key: "a", Limit: l}, {Key: "b", Limit: l}} {
				if n := testing.AllocsPerRun(100, func() { mustTake(t, store, c) }); n != 0 {
					t.Errorf("%v, cost %d of %q: %v allocations", l, c.Cost, c.Key, n)
				}
			}
		}
	}
}

func TestMemoryBatchAllocatesNothing(t *testing.T) {
	var m Store = NewMemory(MemoryOptions{})
	l, k := mustCompile(t, PerMinute(1_000_000)), mustCompile(t, PerHour(1_000_000))
	var groups []Group
	for i := range 100 {
		key := fmt.Sprint("key", i)
		groups = append(groups, Group{Claims: []Claim{{Key: key, Limit: l, Cost: 1}}})
		groups = append(groups, Group{Claims: []Claim{{Key: key, Limit: l, Cost: 1}, {Key: key, Limit: k, Cost: 1}}})
	}
	claims, _ := Sizes(groups)
	out := make([]Decision, claims)
	if n := testing.AllocsPerRun(100, func() {
		if err := m.TakeGroups(context.Background(), groups, out); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Shares of one limit have the same spec and different numbers. A store that
// decides by one share and then by another keeps the state, and uses the right
// numbers for each.
func TestSharesOfALimitKeepTheirNumbers(t *testing.T) {
	now := int64(1e15)
	m := NewMemory(MemoryOptions{Clock: func() time.Time { return time.UnixMicro(now) }})
	t.Cleanup(func() { _ = m.Close() })
	whole, err := Spec{Limit: 10, Window: time.Minute}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		nodes     int
		remaining int64
	}{{1, 9}, {2, 4}, {5, 1}, {1, 0}} {
		share, err := whole.Share(step.nodes)
		if err != nil {
			t.Fatal(err)
		}
		d, err := m.Take(t.Context(), Claim{Key: "k", Limit: share, Cost: 1})
		if err != nil || d.Limit != share.Max() || d.Remaining != step.remaining {
			t.Errorf("%d nodes: %+v, %v, want %d of %d to remain", step.nodes, d, err, step.remaining, share.Max())
		}
	}
}
