package stint

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
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
	rapid.Check(t, func(t *rapid.T) {
		now := time.UnixMicro(1_772_521_925_000_000)
		clock := func() time.Time { return now }
		from, to := NewMemory(MemoryOptions{Clock: clock}), NewMemory(MemoryOptions{Clock: clock})
		take := func(m *Memory, c Claim) Decision {
			d, err := m.Take(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		key := rapid.SampledFrom([]string{"a", "b"})
		draw := func(limit func(key string) Limit) Claim {
			now = now.Add(time.Duration(rapid.Int64Range(0, 20_000_000).Draw(t, "step")) * time.Microsecond)
			k := key.Draw(t, "key")
			return Claim{Key: k, Limit: limit(k), Cost: rapid.Int64Range(-1, 3).Draw(t, "cost")}
		}
		anyLimit := func(string) Limit { return rapid.SampledFrom(limits).Draw(t, "limit") }
		for range rapid.IntRange(0, 20).Draw(t, "before") {
			take(from, draw(anyLimit))
		}
		kept := map[string]Limit{"a": anyLimit("a"), "b": anyLimit("b")}
		for k, l := range kept {
			take(from, Claim{Key: k, Limit: l, Cost: 1})
		}
		take(to, Claim{Key: "a", Limit: limits[0], Cost: 5}) // a state that the copy replaces
		for _, key := range []string{"a", "b"} {
			for _, l := range limits {
				if err := to.CopyState(from, l, key); err != nil {
					t.Fatal(err)
				}
				if got, want := fmt.Sprint(to.kept(key, l).state, to.kept(key, l).times), fmt.Sprint(from.kept(key, l).state, from.kept(key, l).times); got != want {
					t.Fatalf("%v: got %s, want %s", l, got, want)
				}
			}
		}
		for range rapid.IntRange(1, 20).Draw(t, "after") {
			c := draw(func(key string) Limit { return kept[key] })
			if got, want := take(to, c), take(from, c); got != want {
				t.Fatalf("%v: got %+v, want %+v", c.Limit, got, want)
			}
		}
	})
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
