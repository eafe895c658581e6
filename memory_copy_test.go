package stint

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// A copied state is the original to the last bit, and continues as the original does. After
// the copy each key keeps its limit: a state that has expired equals a fresh one under that
// limit alone, and a store forgets it sooner or later.
func TestCopiedStatesContinue(t *testing.T) {
	limits := variedLimits(t)
	for _, s := range []Spec{
		{Algorithm: SlidingWindowCounter, Limit: 10, Window: time.Minute}, {Algorithm: SlidingWindowCounter, Limit: 10, Window: time.Minute, Buckets: 6},
		{Algorithm: SlidingWindowLog, Limit: 3, Window: time.Minute}, {Algorithm: Quota, Limit: 5, Period: "day"},
	} {
		s.Name = "n"
		limits = append(limits, mustCompile(t, s))
	}
	for seed := range uint64(200) {
		continueCopies(t, rand.New(rand.NewPCG(seed, 0)), limits)
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}

// continueCopies copies the states of random claims, and compares how both stores go on.
func continueCopies(t *testing.T, random *rand.Rand, limits []Limit) {
	t.Helper()
	now := time.UnixMicro(1_772_521_925_000_000)
	clock := func() time.Time { return now }
	from, to := NewMemory(MemoryOptions{Clock: clock}), NewMemory(MemoryOptions{Clock: clock})
	keys := []string{"a", "b"}
	anyLimit := func() Limit { return limits[random.IntN(len(limits))] }
	claim := func(key string, l Limit) Claim {
		now = now.Add(time.Duration(random.Int64N(20_000_001)) * time.Microsecond)
		return Claim{Key: key, Limit: l, Cost: random.Int64N(5) - 1}
	}
	for range random.IntN(21) {
		mustTake(t, from, claim(keys[random.IntN(2)], anyLimit()))
	}
	kept := map[string]Limit{"a": anyLimit(), "b": anyLimit()}
	for _, key := range keys {
		mustTake(t, from, Claim{Key: key, Limit: kept[key], Cost: 1})
	}
	mustTake(t, to, Claim{Key: "a", Limit: limits[0], Cost: 5}) // a state that the copy replaces
	for _, key := range keys {
		for _, l := range limits {
			if err := to.CopyState(from, l, key); err != nil {
				t.Fatal(err)
			}
			got, want := to.kept(key, l), from.kept(key, l)
			if got.state != want.state || got.times != want.times {
				t.Fatalf("%v: got %v, want %v", l, got, want)
			}
		}
	}
	for range 1 + random.IntN(20) {
		key := keys[random.IntN(2)]
		c := claim(key, kept[key])
		if got, want := mustTake(t, to, c), mustTake(t, from, c); got != want {
			t.Errorf("%v: got %+v, want %+v", c.Limit, got, want)
		}
	}
}

// A state that is copied again takes the place of the one before it.
func TestCopiesOfOneStateTakeOnePlace(t *testing.T) {
	now := time.UnixMicro(1_772_521_925_000_000)
	clock := func() time.Time { return now }
	for _, limit := range []Limit{mustCompile(t, PerMinute(5)), mustCompile(t, Spec{Algorithm: SlidingWindowLog, Limit: 3, Window: time.Minute})} {
		from, to := NewMemory(MemoryOptions{Clock: clock}), NewMemory(MemoryOptions{Clock: clock})
		if _, err := from.Take(t.Context(), Claim{Key: "a", Limit: limit, Cost: 1}); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			if err := to.CopyState(from, limit, "a"); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := to.Stats(), from.Stats(); got != want || got.Keys != 1 || got.Limits != 1 {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

// States of the limits that callers bring are copied within their own room.
func TestCopiedStatesOfCallersLimits(t *testing.T) {
	limit := mustCompile(t, Spec{Limit: 2, Window: time.Minute, FromCaller: true})
	from, to := NewMemory(MemoryOptions{}), NewMemory(MemoryOptions{})
	for range 2 {
		if d, err := from.Take(t.Context(), Claim{Key: "a", Limit: limit, Cost: 1}); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
	}
	if err := to.CopyState(from, limit, "a"); err != nil {
		t.Fatal(err)
	}
	if d, err := to.Take(t.Context(), Claim{Key: "a", Limit: limit, Cost: 1}); err != nil || d.Allowed {
		t.Errorf("%+v, %v", d, err)
	}
	if s := to.Stats(); s.Keys != 0 || s.Callers.Keys != 1 {
		t.Errorf("%+v", s)
	}
}

// Two full stores that copy into each other, and into themselves, neither wait for each other
// nor exceed their bounds.
func TestStoresCopyIntoEachOtherAtOnce(t *testing.T) {
	a, b := NewMemory(MemoryOptions{MaxKeys: 300, CallerKeys: 300}), NewMemory(MemoryOptions{MaxKeys: 200, CallerKeys: 200})
	limits := []Limit{
		mustCompile(t, PerMinute(5)), mustCompile(t, Spec{Algorithm: SlidingWindowLog, Limit: 30, Window: time.Minute}),
		mustCompile(t, Spec{Limit: 30, Window: time.Minute, FromCaller: true}),
	}
	var all sync.WaitGroup
	for n := range 4 {
		to, from := a, b
		if n%2 == 0 {
			to, from = b, a
		}
		all.Go(func() {
			for i := range 3000 {
				key := fmt.Sprint(i % 700)
				for _, l := range limits {
					_, _ = to.Take(t.Context(), Claim{Key: key, Limit: l, Cost: 1}) // refused by a full store of callers' limits
					if err := errors.Join(to.CopyState(from, l, key), to.CopyState(to, l, key)); err != nil && CodeOf(err) != CodeExhausted {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	all.Wait()
	for store, most := range map[*Memory]int{a: 300, b: 200} {
		if s := store.Stats(); s.Keys == 0 || s.Keys > most || s.Callers.Keys == 0 || s.Callers.Keys > most {
			t.Errorf("at most %d: %+v", most, s)
		}
	}
}

// A copy from a store to itself leaves the state as it is.
func TestCopyToTheSameStoreLeavesTheState(t *testing.T) {
	m, limit := NewMemory(MemoryOptions{}), mustCompile(t, PerMinute(1))
	for range 2 {
		d, err := m.Take(t.Context(), Claim{Key: "a", Limit: limit, Cost: 1})
		if err := errors.Join(err, m.CopyState(m, limit, "a")); err != nil {
			t.Fatal(err)
		}
		if s := m.Stats(); s.Keys != 1 || s.Limits != 1 || d.Remaining != 0 {
			t.Errorf("%+v, %+v", d, s)
		}
	}
}

func TestCopyStateRefusesWhatTakeRefuses(t *testing.T) {
	m := NewMemory(MemoryOptions{})
	limit := mustCompile(t, PerMinute(1))
	for name, err := range map[string]error{
		"zero store": (&Memory{}).CopyState(m, limit, "a"), "from zero": m.CopyState(&Memory{}, limit, "a"), "from nil": m.CopyState(nil, limit, "a"),
		"zero limit": m.CopyState(m, Limit{}, "a"), "empty key": m.CopyState(m, limit, ""),
	} {
		if _, ok := errors.AsType[*Error](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
