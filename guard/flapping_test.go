package guard_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
)

// flapping is a store that is away and comes back, again and again, under more
// load than its limit admits.
type flapping struct {
	away, back time.Duration
	nodes      func(cycle int) int64 // nil: one node
	groups     bool
	local      *stint.Local
	policy     stint.OnFailure
	keys       int
	limit      stint.Spec
}

// tally is what was admitted of one key in a run.
type tally struct {
	store, local int64
	without      time.Duration // how long the store did not decide
	windows      map[int64]int64
}

const (
	flaps      = 40
	flapPace   = 2 * time.Millisecond // between two checks of a key
	flapWindow = time.Minute
)

// run returns what became of each key.
func (f *flapping) run(t *testing.T) (keys []tally) {
	t.Helper()
	store := &counted{faulty: newFaulty()}
	g := mustNew(t, store, guard.Options{})
	limit, err := f.limit.Compile()
	if err != nil {
		t.Fatal(err)
	}
	keys = make([]tally, f.keys)
	begun := time.Now()
	for cycle := range flaps {
		store.nodes.Store(1)
		if f.nodes != nil {
			store.nodes.Store(f.nodes(cycle))
		}
		for start := time.Now(); time.Since(start) < f.away+f.back; time.Sleep(flapPace) {
			if store.heal(); time.Since(start) < f.away {
				store.befall(fails(errUnavailable))
			}
			for k := range keys {
				c := stint.Claim{Key: fmt.Sprint("user:", k), Limit: limit, Cost: 1, Local: f.local, Policy: stint.Policy{OnFailure: f.policy}}
				keys[k].note(f.take(t, g, c))
			}
		}
	}
	for k := range keys {
		took := time.Since(begun).Seconds()
		t.Logf("key %d: %.1f/s: %d by the store, %d by memory in %v without it", k, float64(keys[k].store+keys[k].local)/took, keys[k].store, keys[k].local, keys[k].without)
	}
	return keys
}

func (f *flapping) take(t *testing.T, g *guard.Store, c stint.Claim) stint.Decision {
	t.Helper()
	out := make([]stint.Decision, 1)
	var err error
	if f.groups {
		err = g.TakeGroups(t.Context(), []stint.Group{{Claims: []stint.Claim{c}}}, out)
	} else {
		out[0], err = g.Take(t.Context(), c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out[0]
}

func (k *tally) note(d stint.Decision) {
	if d.Degraded {
		k.without += flapPace
	}
	switch {
	case !d.Allowed:
	case d.Degraded:
		k.local++
		if k.windows == nil {
			k.windows = map[int64]int64{}
		}
		k.windows[time.Now().UnixNano()/int64(flapWindow)]++
	default:
		k.store++
	}
}

// A store that comes and goes does not hand out the share anew each time: in all
// outages together memory admits the share once, and what that refills while
// the store is away. The store admits what it always does.
func TestFlappingStoreHandsOutTheShareOnce(t *testing.T) {
	second := stint.Spec{Limit: 60, Window: time.Second}
	for name, f := range map[string]flapping{
		"alone":            {away: 300 * time.Millisecond, back: 700 * time.Millisecond, keys: 1, limit: second},
		"in groups":        {away: 300 * time.Millisecond, back: 700 * time.Millisecond, keys: 1, limit: second, groups: true},
		"several keys":     {away: 300 * time.Millisecond, back: 700 * time.Millisecond, keys: 5, limit: second},
		"mostly away":      {away: 700 * time.Millisecond, back: 300 * time.Millisecond, keys: 1, limit: second},
		"quicker":          {away: 50 * time.Millisecond, back: 100 * time.Millisecond, keys: 1, limit: second},
		"slow bucket":      {away: 300 * time.Millisecond, back: 700 * time.Millisecond, keys: 1, limit: stint.Spec{Limit: 60, Window: time.Minute}},
		"nodes that count": {away: 300 * time.Millisecond, back: 700 * time.Millisecond, keys: 1, limit: second, nodes: func(cycle int) int64 { return int64(1 + cycle%3) }},
		"three nodes":      {away: 300 * time.Millisecond, back: 700 * time.Millisecond, keys: 1, limit: second, nodes: func(int) int64 { return 3 }},
	} {
		for _, f.policy = range inMemory {
			t.Run(name+" "+f.policy.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					for _, k := range f.run(t) {
						rate := float64(f.limit.Limit) / f.limit.Window.Seconds()
						share := f.limit.Limit
						if name == "three nodes" {
							rate, share = rate/3, share/3
						}
						// Each time that the store is back it has admitted nothing that
						// drains memory until the first check: one more an outage.
						if most := share + int64(rate*k.without.Seconds()) + flaps; k.local > most {
							t.Errorf("memory admitted %d, want at most %d", k.local, most)
						}
					}
				})
			})
		}
	}
}

// inMemory lists the policies under which a claim is decided in memory.
var inMemory = []stint.OnFailure{stint.FailLocal, stint.FailLastKnown}

// Windows are handed out once each.
func TestFlappingStoreHandsOutAWindowOnce(t *testing.T) {
	for _, algorithm := range []stint.Algorithm{stint.FixedWindow, stint.SlidingWindowCounter, stint.SlidingWindowLog, stint.Quota} {
		for _, policy := range inMemory {
			t.Run(algorithm.String()+" "+policy.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					spec := stint.Spec{Algorithm: algorithm, Limit: 60, Window: flapWindow}
					if algorithm == stint.Quota {
						spec.Window, spec.Period = 0, "day"
					}
					f := flapping{away: 300 * time.Millisecond, back: 4700 * time.Millisecond, keys: 2, limit: spec, policy: policy}
					for _, k := range f.run(t) {
						for window, n := range k.windows {
							if n > 60 {
								t.Errorf("memory admitted %d in window %d, want at most 60", n, window)
							}
						}
					}
				})
			})
		}
	}
}

// A limit of its own for failures holds over all of them, whatever the store
// admits in between.
func TestFlappingStoreKeepsALocalLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := flapping{
			away: 300 * time.Millisecond, back: 700 * time.Millisecond, keys: 3, limit: stint.Spec{Limit: 60, Window: time.Second}, policy: stint.FailLocal,
			local: &stint.Local{Key: "10.0.0.1", Limit: mustLimit(t, "10/m")},
		}
		local := int64(0)
		for _, k := range f.run(t) {
			local += k.local
		}
		if most := int64(10 + flaps/6 + 1); local > most || local < most-2 {
			t.Errorf("memory admitted %d in %d s, want about %d", local, flaps, most)
		}
	})
}

// The state that outlived a recovery is dropped when nothing in it counts any
// more, and not before.
func TestLocalStateIsDroppedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int64
		store := newFaulty()
		g := mustNew(t, store, guard.Options{Local: func() stint.Store {
			made.Add(1)
			return stint.NewMemory(stint.MemoryOptions{})
		}})
		c := claim(t, "user:2", stint.FailLocal) // full again after 6 s
		opened(t, g, store, fails(errUnavailable), "user:1")
		if _, err := g.Take(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if made.Load() != 1 {
			t.Errorf("dropped while the store is away: %d stores were made", made.Load())
		}
		_, _ = g.Take(t.Context(), c)
		store.heal()
		for range 5 { // what the store admits keeps nothing alive
			time.Sleep(time.Second)
			_, _ = g.Take(t.Context(), c)
		}
		if made.Load() != 1 {
			t.Errorf("dropped too early: %d stores were made", made.Load())
		}
		time.Sleep(3 * time.Second)
		if made.Load() != 2 {
			t.Errorf("kept for ever: %d stores were made", made.Load())
		}
	})
}

// What the store admits at once may be more than the share, or than what is left
// of it. Then the share is used up.
func TestStoreThatAdmitsMoreThanTheShareUsesItUp(t *testing.T) {
	for name, c := range map[string]stint.Claim{
		"by a great cost":  {Cost: 30},
		"by what is left":  {Cost: 15},
		"by a lease":       {Cost: 1, Extra: 29},
		"on a queue":       {Cost: 30, Limit: mustCompile(t, stint.Spec{Algorithm: stint.LeakyBucket, Limit: 60, Window: time.Hour, Queue: 59})},
		"with a bound too": {Cost: 30, MaxDelay: time.Hour, Limit: mustCompile(t, stint.Spec{Algorithm: stint.LeakyBucket, Limit: 60, Window: time.Hour, Queue: 59})},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &counted{faulty: newFaulty()}
				store.nodes.Store(3) // a share of 20
				g := mustNew(t, store, guard.Options{})
				if c.Key, c.Policy.OnFailure = "user:1", stint.FailLocal; !c.Limit.Valid() {
					c.Limit = mustLimit(t, "60/h")
				}
				opened(t, g, store.faulty, fails(errUnavailable), "user:2")
				if d, err := g.Take(t.Context(), stint.Claim{Key: "user:2", Limit: mustLimit(t, "60/h"), Cost: 1, Policy: c.Policy}); err != nil || !d.Degraded {
					t.Fatal(d, err)
				}
				store.heal()
				time.Sleep(time.Second)
				for range 2 {
					if d, err := g.Take(t.Context(), c); err != nil || d.Degraded || !d.Allowed {
						t.Fatal(d, err)
					}
				}
				store.befall(fails(errUnavailable))
				if d, err := g.Take(t.Context(), stint.Claim{Key: c.Key, Limit: c.Limit, Cost: 1, Policy: c.Policy}); err != nil || !d.Degraded || d.Allowed {
					t.Error("memory admits what the store has admitted before:", d, err)
				}
			})
		})
	}
}

func mustCompile(t *testing.T, s stint.Spec) stint.Limit {
	t.Helper()
	l, err := s.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return l
}
