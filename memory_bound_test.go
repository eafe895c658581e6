package stint

import (
	"fmt"
	"testing"
	"time"
)

func TestMemoryForgetsIdleKeys(t *testing.T) {
	m, clock := newTestMemory(MemoryOptions{MaxKeys: 200_000})
	l := mustCompile(t, PerMinute(10))
	for wave := range 20 {
		for i := range 10_000 {
			mustTake(t, m, Claim{Key: fmt.Sprint(wave, "/", i), Limit: l, Cost: 1})
		}
		clock.pass(time.Minute)
	}
	if s := m.Stats(); s.Keys > 25_000 || s.Evictions > 0 || s.Full {
		t.Errorf("after 20 waves of 10,000 keys that were each idle after one: %+v", s)
	}
}

// A lowered rate keeps what was used, even if the bucket would be full by now
// under the old rate and other keys have come since.
func TestMemoryKeepsWhatWasUsedForALoweredRate(t *testing.T) {
	m, clock := newTestMemory(MemoryOptions{})
	fast, slow := mustCompile(t, Spec{RefillRate: "10", Capacity: 10}), mustCompile(t, Spec{RefillRate: "0.001", Capacity: 10})
	mustTake(t, m, Claim{Key: "k", Limit: fast, Cost: 10})
	clock.pass(15 * time.Second)
	for i := range 20_000 {
		mustTake(t, m, Claim{Key: fmt.Sprint(i), Limit: fast, Cost: 1})
	}
	if d := mustTake(t, m, Claim{Key: "k", Limit: slow}); d.Remaining != 0 {
		t.Errorf("%+v; want an empty bucket", d)
	}
}

func TestMemoryKeepsAllForReplay(t *testing.T) {
	m, clock := newTestMemory(MemoryOptions{KeepAll: true, MaxKeys: 10})
	l := mustCompile(t, PerMinute(10))
	start := clock.now()
	for i := range 20_000 {
		mustTake(t, m, Claim{Key: fmt.Sprint(i), Limit: l, Cost: 1})
		clock.pass(time.Second)
	}
	if s := m.Stats(); s.Keys != 20_000 || s.Evictions+s.Unstored > 0 {
		t.Errorf("%+v, want 20,000 keys", s)
	}
	clock.us.Store(start)
	if d := mustTake(t, m, Claim{Key: "7", Limit: l}); d.Remaining != 9 {
		t.Errorf("back at the start: remaining %d, want 9", d.Remaining)
	}
}

// A flood of new keys must neither take memory beyond the bound nor free a
// key that is denied.
func TestFloodStaysWithinBound(t *testing.T) {
	const bound = 10_000
	flood := 4 * bound
	if testing.Short() {
		flood /= 2
	}
	for _, s := range []Spec{
		{Limit: 100, Window: time.Hour},
		{Algorithm: SlidingWindowCounter, Limit: 100, Window: time.Hour, Buckets: 6},
		{Algorithm: SlidingWindowLog, Limit: 100, Window: time.Hour},
	} {
		m, clock := newTestMemory(MemoryOptions{MaxKeys: bound})
		l := mustCompile(t, s)
		var denied []string
		for i := range 100 {
			denied = append(denied, fmt.Sprint("denied", i))
			mustTake(t, m, Claim{Key: denied[i], Limit: l, Cost: 100})
		}
		for i := range flood {
			mustTake(t, m, Claim{Key: fmt.Sprint("flood", i), Limit: l, Cost: 1})
			clock.us.Add(10)
		}
		for _, key := range denied {
			if d := mustTake(t, m, Claim{Key: key, Limit: l, Cost: 1}); d.Allowed {
				t.Fatalf("%v: %s was freed by the flood", l, key)
			}
		}
		if s := m.Stats(); s.Keys > bound || s.Evictions == 0 || !s.Full {
			t.Errorf("%v: %+v", l, s)
		}
	}
}

func TestFullOfExhaustedKeysDecidesNewOnesAsFresh(t *testing.T) {
	m, _ := newTestMemory(MemoryOptions{MaxKeys: 100})
	l := mustCompile(t, PerHour(5))
	for i := range 100 {
		mustTake(t, m, Claim{Key: fmt.Sprint(i), Limit: l, Cost: 5})
	}
	for range 3 {
		if d := mustTake(t, m, Claim{Key: "new", Limit: l, Cost: 2}); !d.Allowed || d.Remaining != 3 {
			t.Errorf("a newcomer: %+v, want decided as fresh", d)
		}
	}
	if s := m.Stats(); s.Keys != 100 || s.Unstored != 3 || s.Evictions != 0 {
		t.Errorf("%+v", s)
	}
}

// A single log cannot grow beyond the bound of the store.
func TestWideStatesCountAsSeveral(t *testing.T) {
	m, clock := newTestMemory(MemoryOptions{MaxKeys: 2000})
	l := mustCompile(t, Spec{Algorithm: SlidingWindowLog, Limit: 1000, Window: time.Hour})
	for i := range 100 {
		for range 400 {
			mustTake(t, m, Claim{Key: fmt.Sprint(i), Limit: l, Cost: 1})
			clock.us.Add(1)
		}
	}
	if s := m.Stats(); s.Keys > 10 || s.Evictions == 0 {
		t.Errorf("logs of units at 400 times weigh over 200 each; a bound of 2000 holds %d", s.Keys)
	}
	d := mustTake(t, m, Claim{Key: "99", Limit: l, Cost: 1})
	if d.Remaining != 599 {
		t.Errorf("the newest log: remaining %d, want 599", d.Remaining)
	}
	for range 10 {
		mustTake(t, m, Claim{Key: "99", Limit: l, Cost: Forget})
		if d := mustTake(t, m, Claim{Key: "99", Limit: l, Cost: 1000}); !d.Allowed || d.Remaining != 0 {
			t.Errorf("%+v", d)
		}
	}
}

// The weight of a log depends on the number of times that it keeps, not on the
// number of units.
func TestUnitsOfOneTimeWeighAsOne(t *testing.T) {
	m, clock := newTestMemory(MemoryOptions{MaxKeys: 100})
	l := mustCompile(t, Spec{Algorithm: SlidingWindowLog, Limit: 10_000, Window: MaxWindow})
	for i := range 50 {
		mustTake(t, m, Claim{Key: fmt.Sprint(i), Limit: l, Cost: 4000})
	}
	clock.us.Add(1)
	for i := range 50 {
		d := mustTake(t, m, Claim{Key: fmt.Sprint(i), Limit: l, Cost: 6000})
		if !d.Allowed || d.Remaining != 0 {
			t.Fatalf("log %d: %+v; want all of it used", i, d)
		}
	}
	if s := m.Stats(); s.Keys != 50 || s.Evictions > 0 || s.Unstored > 0 {
		t.Errorf("%+v; want 50 logs of 20,000 units in the room of 100 keys", s)
	}
}

// A log whose units leave one by one stays within its room.
func TestALogThatSlidesDoesNotGrow(t *testing.T) {
	m, clock := newTestMemory(MemoryOptions{MaxKeys: 100})
	l := mustCompile(t, Spec{Algorithm: SlidingWindowLog, Limit: 100, Window: time.Millisecond})
	for i := range 10_000 {
		if d := mustTake(t, m, Claim{Key: "a", Limit: l, Cost: 1}); !d.Allowed || d.Remaining != max(0, 99-int64(i)) {
			t.Fatalf("take %d: %+v", i, d)
		}
		clock.us.Add(10)
	}
	if s := m.Stats(); s.Unstored > 0 {
		t.Errorf("%+v; want every charge stored", s)
	}
}

func TestCloseForgetsEverything(t *testing.T) {
	m, _ := newTestMemory(MemoryOptions{})
	for _, s := range everyAlgorithm() {
		l := mustCompile(t, s)
		for i := range 1000 {
			mustTake(t, m, Claim{Key: fmt.Sprint(i), Limit: l, Cost: 10})
		}
	}
	if err := m.Close(); err != nil || m.Stats().Keys != 0 {
		t.Errorf("after Close: %v, %+v", err, m.Stats())
	}
	for _, s := range everyAlgorithm() {
		if d := mustTake(t, m, Claim{Key: "7", Limit: mustCompile(t, s), Cost: 1}); d.Remaining != 9 {
			t.Errorf("%s after Close: %+v", s.Algorithm, d)
		}
	}
}
