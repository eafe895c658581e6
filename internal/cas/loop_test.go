package cas_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/internal/cas/casmem"
	"github.com/stintdev/stint/storekit"
)

func claim(key, limit string, cost int64) stint.Claim {
	return stint.Claim{Key: key, Limit: stint.MustParseLimit(limit), Cost: cost}
}

// take takes a claim that must be decided.
func take(tb testing.TB, s *cas.Store, c stint.Claim) stint.Decision {
	tb.Helper()
	d, err := s.Take(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func kindOf(err error) (stint.Code, stint.Kind) {
	if e, ok := errors.AsType[*stint.Error](err); ok {
		return e.Code, e.Kind
	}
	return stint.CodeOf(err), ""
}

// A denial or a peek is one read.
func TestDenialsWriteNothing(t *testing.T) {
	server := casmem.NewServer(nil)
	s := newStore(t, casmem.New(server), cas.Options{})
	take(t, s, claim("a", "2/h", 2))
	before := server.Items()
	for _, cost := range []int64{1, 0, -0} {
		take(t, s, claim("a", "2/h", cost))
	}
	group := stint.Group{Claims: []stint.Claim{claim("b", "2/h", 1), claim("a", "2/h", 1)}}
	if err := s.TakeGroups(t.Context(), []stint.Group{group}, make([]stint.Decision, 2)); err != nil {
		t.Fatal(err)
	}
	if loads, writes := server.Calls(); loads != 5 || writes != 1 {
		t.Errorf("%d loads and %d writes", loads, writes)
	}
	if after := server.Items(); len(after) != len(before) || string(after["=a"]) != string(before["=a"]) {
		t.Errorf("the items were %q and are %q", before, after)
	}
}

// ticking returns a clock of a server that advances a little at each reading, as it does on the
// way of a call to the server.
func ticking() func() time.Time {
	var offset atomic.Int64
	return func() time.Time { return time.Now().Add(time.Duration(offset.Add(int64(3 * time.Microsecond)))) }
}

// A node does not read what it has just written. A key that another node writes too is read.
func TestNodesRememberWhatTheyWrote(t *testing.T) {
	clocks := map[string]func() time.Time{"without a clock": nil, "with a clock": ticking()}
	for name, clock := range clocks {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := casmem.NewServer(clock)
				one, two := newStore(t, casmem.New(server), cas.Options{}), newStore(t, casmem.New(server), cas.Options{})
				calls := func(f func()) (loads, writes int) {
					loads0, writes0 := server.Calls()
					f()
					loads1, writes1 := server.Calls()
					return loads1 - loads0, writes1 - writes0
				}
				alone := func() {
					for range 10 {
						take(t, one, claim("k", "1000/h", 1))
					}
				}
				if loads, writes := calls(alone); loads != 2 || writes != 10 {
					t.Errorf("10 checks are %d loads and %d writes", loads, writes)
				}
				in := func() {
					for range 10 {
						take(t, one, claim("k", "1000/h", 1))
						take(t, two, claim("k", "1000/h", 1))
					}
				}
				if loads, writes := calls(in); loads > 21 || writes != 20 {
					t.Errorf("20 checks of two nodes in turn are %d loads and %d writes", loads, writes)
				}
				if lost := one.Stats().Lost + two.Stats().Lost; lost > 1 {
					t.Errorf("%d swaps were lost", lost)
				}
				alone()
				time.Sleep(time.Minute)
				if loads, _ := calls(alone); loads != map[bool]int{true: 0, false: 1}[clock == nil] {
					t.Errorf("%d loads after a pause", loads)
				}
				for _, c := range []stint.Claim{claim("k", "1000/h", 0), claim("k", "1000/h", 1000)} { // nothing to write
					alone()
					take(t, two, claim("k", "1000/h", -5))
					loads, _ := calls(func() {
						if d := take(t, one, c); d.Remaining < 900 {
							t.Errorf("a claim of %d: %d remain", c.Cost, d.Remaining)
						}
					})
					if loads != 1 {
						t.Errorf("a claim of %d is %d loads", c.Cost, loads)
					}
				}
			})
		})
	}
}

// After a write without an answer, a node reads the keys that it remembers, so that the outcome
// of no other check is unknown.
func TestFrozenServersGetOneWrite(t *testing.T) {
	for name, clock := range map[string]func() time.Time{"without a clock": nil, "with a clock": ticking()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := casmem.NewServer(clock)
				b := casmem.New(server)
				s := newStore(t, b, cas.Options{})
				for range 3 {
					take(t, s, claim("k", "10/h", 1))
					take(t, s, claim("another", "10/h", 1))
				}
				b.Befall(casmem.Faults{Delay: time.Hour})
				for i, key := range []string{"k", "another", "k", "another"} {
					ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
					_, err := s.Take(ctx, claim(key, "10/h", 1))
					cancel()
					if code, _ := kindOf(err); code != stint.CodeTimeout {
						t.Errorf("check %d: %v", i, err)
					}
				}
				b.Befall(casmem.Faults{})
				loads, _ := server.Calls()
				if d := take(t, s, claim("k", "10/h", 1)); d.Remaining != 6 {
					t.Errorf("%d remain of 10 after 4 charges", d.Remaining)
				}
				if after, _ := server.Calls(); after != loads+1 || s.Stats().Unknown != 1 {
					t.Errorf("%d loads, %d unknown", after-loads, s.Stats().Unknown)
				}
			})
		})
	}
}

// What another node does to an item is seen, although this node remembers the item.
func TestNodesSeeTheWritesOfOthers(t *testing.T) {
	server := casmem.NewServer(nil)
	one, two := newStore(t, casmem.New(server), cas.Options{}), newStore(t, casmem.New(server), cas.Options{})
	for _, c := range []struct {
		by   stint.Claim
		want int64
	}{{claim("k", "10/d", 2), 4}, {claim("k", "10/d", -1), 7}, {claim("k", "10/d", stint.Forget), 9}, {claim("k", "10/d", 7), -1}} {
		take(t, one, claim("k", "10/d", stint.Forget))
		for range 3 {
			take(t, one, claim("k", "10/d", 1))
		}
		take(t, two, c.by)
		if d := take(t, one, claim("k", "10/d", 1)); d.Allowed != (c.want >= 0) || d.Allowed && d.Remaining != c.want {
			t.Errorf("after a claim of %d by another node: %+v", c.by.Cost, d)
		}
	}
}

// Callers that wait for a hot key share the next swap.
func TestCallersOfAKeyShareASwap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := casmem.NewServer(nil)
		b := casmem.New(server)
		b.Befall(casmem.Faults{Delay: 10 * time.Millisecond})
		s := newStore(t, b, cas.Options{})
		var allowed atomic.Int64
		var all sync.WaitGroup
		for i := range 500 {
			all.Go(func() {
				c := claim("hot", "300/h", 1)
				if i%2 == 1 {
					c.Limit = stint.MustParseLimit("400/d")
				}
				if d, err := s.Take(t.Context(), c); err != nil {
					t.Error(err)
				} else if d.Allowed {
					allowed.Add(1)
				}
			})
		}
		start := time.Now()
		all.Wait()
		if loads, writes := server.Calls(); loads > 3 || writes > 3 || allowed.Load() != 500 || time.Since(start) > 60*time.Millisecond {
			t.Errorf("%d loads, %d writes, %d of 500 allowed after %v", loads, writes, allowed.Load(), time.Since(start))
		}
	})
}

// A caller that leaves before its call is sent is not charged, and the others of its round
// are decided.
func TestCallersThatLeaveAreNotCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := casmem.New(casmem.NewServer(nil))
		b.Befall(casmem.Faults{Delay: 10 * time.Millisecond})
		s := newStore(t, b, cas.Options{})
		first := make(chan error, 1)
		go func() { _, err := s.Take(t.Context(), claim("k", "10/h", 1)); first <- err }()
		synctest.Wait()
		var all sync.WaitGroup
		for _, patience := range []time.Duration{5 * time.Millisecond, 25 * time.Millisecond} { // queued, and in a round that reads
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				_, err := s.Take(ctx, claim("k", "10/h", 1))
				if code, _ := kindOf(err); code != stint.CodeTimeout || !strings.Contains(err.Error(), "nothing was charged") {
					t.Errorf("after %v: %v", patience, err)
				}
			})
		}
		all.Go(func() { take(t, s, claim("k", "10/h", 1)) })
		all.Wait()
		if err := <-first; err != nil {
			t.Error(err)
		}
		if d := take(t, s, claim("k", "10/h", 0)); d.Remaining != 8 {
			t.Errorf("%d remain of 10 after two charges", d.Remaining)
		}
	})
}

// A swap that is never made wins in the end, and one that was made is not made again.
func TestUnknownOutcomesAreResolved(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]casmem.Faults{"made": {UnknownDone: 0.5}, "never made": {UnknownNever: 0.5}, "made later": {UnknownLate: 0.5}} {
		for kind, backend := range casmem.Kinds {
			t.Run(name+" on "+kind, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					b := casmem.New(casmem.NewServer(nil))
					s := newStore(t, backend(b), cas.Options{Clock: func() time.Time { return time.Unix(1e9, 0) }, KeepFor: time.Hour})
					b.Befall(f)
					for range 100 {
						take(t, s, claim("a", "1000/h", 1))
						g := stint.Group{Claims: []stint.Claim{claim("a", "1000/h", 1), claim("b", "1000/h", 1)}}
						if err := s.TakeGroups(t.Context(), []stint.Group{g}, make([]stint.Decision, 2)); err != nil {
							t.Fatal(err)
						}
					}
					b.Befall(casmem.Faults{})
					if a, b := take(t, s, claim("a", "1000/h", 0)), take(t, s, claim("b", "1000/h", 0)); a.Remaining != 800 || b.Remaining != 900 {
						t.Errorf("%d and %d remain after 200 and 100 charges", a.Remaining, b.Remaining)
					}
					if s.Stats().Unknown == 0 {
						t.Error("no outcome was unknown")
					}
				})
			})
		}
	}
}

// A swap whose outcome stays unknown keeps its charge.
func TestUnknownOutcomesKeepTheirCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := casmem.New(casmem.NewServer(nil))
		s := newStore(t, b, cas.Options{})
		b.Befall(casmem.Faults{UnknownNever: 1})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := s.Take(ctx, claim("k", "10/h", 1))
		if code, _ := kindOf(err); code != stint.CodeTimeout {
			t.Error(err)
		}
	})
}

func TestLostSwapsAreContended(t *testing.T) {
	for kind, backend := range casmem.Kinds {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := casmem.New(casmem.NewServer(nil))
				s := newStore(t, backend(b), cas.Options{})
				take(t, s, claim("k", "10/h", 1))
				b.Befall(casmem.Faults{Lose: 1})
				for _, within := range []time.Duration{time.Hour, 20 * time.Millisecond} {
					ctx, cancel := context.WithTimeout(t.Context(), within)
					_, err := s.Take(ctx, claim("k", "10/h", 1))
					cancel()
					if code, _ := kindOf(err); code != stint.CodeContended {
						t.Errorf("within %v: %v", within, err)
					}
				}
				b.Befall(casmem.Faults{})
				if d := take(t, s, claim("k", "10/h", 0)); d.Remaining != 9 {
					t.Errorf("%d remain of 10 after one charge", d.Remaining)
				}
				if locks := s.Stats().Locks; (locks > 0) != (kind == "full" || kind == "locking") {
					t.Errorf("%d locks", locks)
				}
			})
		})
	}
}

// A server that asks for fewer calls gets a few more after a while, and then the failure
// policy decides.
func TestThrottledCallsAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := casmem.New(casmem.NewServer(nil))
		s := newStore(t, b, cas.Options{})
		b.Befall(casmem.Faults{Throttle: 1})
		_, err := s.Take(t.Context(), claim("k", "10/h", 1))
		if code, kind := kindOf(err); code != stint.CodeExhausted || kind != cas.KindThrottled || s.Stats().Throttled != 4 {
			t.Errorf("%v after %d calls", err, s.Stats().Throttled)
		}
	})
}

func TestCorruptItemsFailTheirOwnClaims(t *testing.T) {
	for name, value := range map[string][]byte{"text": []byte("hello, world"), "empty": {}, "newer": {2, 0, 0, 0, 0, 0}} {
		server := casmem.NewServer(nil)
		s := newStore(t, casmem.Full{Atomic: casmem.Atomic{Backend: casmem.New(server)}}, cas.Options{})
		server.Set("=a", value)
		groups := []stint.Group{{Claims: []stint.Claim{claim("a", "10/h", 1), claim("b", "10/h", 1)}}, {Claims: []stint.Claim{claim("b", "10/h", 1)}}}
		out := make([]stint.Decision, 3)
		errs, _ := storekit.PartErrors(s.TakeGroups(t.Context(), groups, out), 2)
		if errs == nil || errs[1] != nil || !out[2].Allowed || out[2].Remaining != 9 {
			t.Fatalf("%s: %v %v", name, errs, out)
		}
		if _, kind := kindOf(errs[0]); kind != stint.KindCorrupt {
			t.Errorf("%s: %v", name, errs[0])
		}
		take(t, s, claim("a", "10/h", stint.Forget))
		if d := take(t, s, claim("a", "10/h", 1)); d.Remaining != 9 {
			t.Errorf("%s: %d remain of 10 after a reset", name, d.Remaining)
		}
	}
}

// An item holds a bounded number of limits. Those that callers bring have an item of their
// own.
func TestItemsHaveABoundedNumberOfLimits(t *testing.T) {
	server := casmem.NewServer(nil)
	s := newStore(t, casmem.New(server), cas.Options{})
	named := func(i int, caller bool) stint.Claim {
		l, err := stint.Spec{Name: fmt.Sprint("limit", i), Limit: 10, Window: time.Hour, FromCaller: caller}.Compile()
		if err != nil {
			t.Fatal(err)
		}
		return stint.Claim{Key: "k", Limit: l, Cost: 1}
	}
	for i := range 64 {
		take(t, s, named(i, false))
		take(t, s, named(i, true))
	}
	for caller, want := range map[bool]stint.Kind{false: cas.KindItemFull, true: stint.KindCallerBudget} {
		c := named(64, caller)
		_, err := s.Take(t.Context(), c)
		if code, kind := kindOf(err); code != stint.CodeExhausted || kind != want {
			t.Errorf("caller %v: %v", caller, err)
		}
		if d := take(t, s, named(7, caller)); d.Remaining != 8 {
			t.Errorf("caller %v: a limit that is there has %d remaining", caller, d.Remaining)
		}
		shadowed := stint.Group{Claims: []stint.Claim{named(8, caller)}, Shadows: [][]stint.Claim{{c}, {named(9, caller)}}}
		out := make([]stint.Decision, 3)
		errs, _ := storekit.PartErrors(s.TakeGroups(t.Context(), []stint.Group{shadowed}, out), 3)
		if errs == nil || errs[0] != nil || errs[1] == nil || errs[2] != nil || out[0].Remaining != 8 || out[2].Remaining != 8 {
			t.Errorf("caller %v: shadows %v %v", caller, errs, out)
		}
	}
	for key, value := range server.Items() {
		if len(value) > 8<<10 {
			t.Errorf("%q has %d bytes", key, len(value))
		}
	}
}

func TestItemsHaveABoundedSize(t *testing.T) {
	now := time.Unix(1e9, 0)
	server := casmem.NewServer(nil)
	s := newStore(t, casmem.New(server), cas.Options{Clock: func() time.Time { return now }, KeepFor: time.Hour})
	l, err := stint.Spec{Algorithm: stint.SlidingWindowLog, Limit: 10_000, Window: time.Hour}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	n, failed := 0, error(nil)
	for ; n < 10_000 && failed == nil; n++ {
		now = now.Add(time.Microsecond)
		_, failed = s.Take(t.Context(), stint.Claim{Key: "k", Limit: l, Cost: 1})
	}
	if _, kind := kindOf(failed); kind != cas.KindItemFull || n < 7000 {
		t.Errorf("after %d: %v", n, failed)
	}
	if size := len(server.Items()["=k"]); size > cas.MaxValue {
		t.Errorf("%d bytes", size)
	}
}

// Keys of any length and bytes are apart.
func TestKeysAreApart(t *testing.T) {
	server := casmem.NewServer(nil)
	s := newStore(t, casmem.New(server), cas.Options{})
	long := strings.Repeat("x", cas.MaxKey-1)
	for _, key := range []string{"a", "\x00", "=a", long, long + "x", long + "y", strings.Repeat("y", stint.MaxKey)} {
		if d := take(t, s, claim(key, "10/h", 1)); d.Remaining != 9 {
			t.Errorf("%q shares its item", key)
		}
	}
	for key := range server.Items() {
		if len(key) > cas.MaxKey {
			t.Errorf("a key of %d bytes", len(key))
		}
	}
}

// Several nodes contend for keys under all faults. Nothing is admitted beyond the limits,
// and each charge belongs to an admission or to a call without an answer.
func TestNothingIsChargedTwice(t *testing.T) {
	t.Parallel()
	for kind, backend := range casmem.Kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			const limit = 400
			server := casmem.NewServer(nil)
			clock := func() time.Time { return time.Unix(1e9, 0) }
			var admitted, unanswered [3]atomic.Int64
			var all sync.WaitGroup
			for node := range 3 {
				b := casmem.New(server)
				f := casmem.Survivable
				f.Seed, f.Fail, f.Throttle = uint64(node), 0.01, 0.01
				b.Befall(f)
				s := newStore(t, backend(b), cas.Options{Clock: clock, KeepFor: time.Hour})
				for g := range 8 {
					all.Go(func() {
						for i := range 60 {
							keys := []int{(g + i) % 3}
							if i%2 == 0 {
								keys = append(keys, (g+i+1)%3)
							}
							charge(t, s, keys, &admitted, &unanswered, limit)
						}
					})
				}
			}
			all.Wait()
			s := newStore(t, backend(casmem.New(server)), cas.Options{Clock: clock, KeepFor: time.Hour})
			for i := range 3 {
				used := limit - take(t, s, claim(fmt.Sprint("k", i), "400/h", 0)).Remaining
				if got, most := admitted[i].Load(), admitted[i].Load()+unanswered[i].Load(); got > limit || used < got || used > most {
					t.Errorf("key %d: %d charged, %d admitted and %d without an answer, of %d", i, used, got, unanswered[i].Load(), limit)
				}
			}
		})
	}
}

// charge takes a unit of each key, and counts the outcome.
func charge(t *testing.T, s *cas.Store, keys []int, admitted, unanswered *[3]atomic.Int64, limit int) {
	var g stint.Group
	for _, k := range keys {
		g.Claims = append(g.Claims, claim(fmt.Sprint("k", k), fmt.Sprint(limit, "/h"), 1))
	}
	out := make([]stint.Decision, len(keys))
	err := s.TakeGroups(t.Context(), []stint.Group{g}, out)
	_, binding := stint.Combine(g.Claims, out)
	code, _ := kindOf(err)
	for _, k := range keys {
		switch {
		case err == nil && binding.Allowed:
			admitted[k].Add(1)
		case err == nil, code == stint.CodeContended, code == stint.CodeUnavailable, code == stint.CodeExhausted:
		default:
			unanswered[k].Add(1)
		}
	}
}
