package stint

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"
)

// brought compiles a limit as one that a caller of a server brings.
func brought(t testing.TB, s Spec) Limit {
	t.Helper()
	s.FromCaller = true
	return mustCompile(t, s)
}

// checkReferences checks that every state is counted by its limit, and that the
// registry keeps no other limit.
func checkReferences(t testing.TB, s *states) {
	t.Helper()
	if s == nil {
		return
	}
	users, limits := 0, 0
	for i := range *s.limits.places.Load() {
		if l := (*s.limits.places.Load())[i].Load(); l != nil {
			limits++
			users += int(l.users.Load())
			if l.users.Load() < 1 {
				t.Errorf("%v is kept with %d users", Limit{l.n}, l.users.Load())
			}
		}
	}
	if keys := s.table.Stats().Keys; users != keys || limits != s.limits.size() {
		t.Errorf("%d states, %d users; %d limits, %d in places", keys, users, s.limits.size(), limits)
	}
}

// A flood of callers' limits with the greatest possible states leaves the states
// of rules unchanged.
func TestFloodOfCallersLeavesRulesAlone(t *testing.T) {
	for _, flood := range []Spec{
		{Algorithm: SlidingWindowLog, Limit: 10_000, Window: MaxWindow},
		{Algorithm: SlidingWindowCounter, Limit: 10_000, Window: MaxWindow, Buckets: 60},
		{Limit: 10_000, Window: MaxWindow},
	} {
		m, clock := newTestMemory(MemoryOptions{MaxKeys: 2000})
		rule := mustCompile(t, Spec{Rule: "orders", Limit: 10, Window: time.Hour})
		for i := range 1000 {
			mustTake(t, m, Claim{Key: fmt.Sprint("used", i), Limit: rule, Cost: 10})
			mustTake(t, m, Claim{Key: fmt.Sprint("using", i), Limit: rule, Cost: 3})
		}
		refused := 0
		for i := range 3000 {
			s := flood
			s.Name = fmt.Sprint("made-up", i%1500)
			_, err := m.Take(t.Context(), Claim{Key: fmt.Sprint(i), Limit: brought(t, s), Cost: 10_000})
			if e, ok := errors.AsType[*Error](err); ok && e.Code == CodeExhausted {
				refused++
			} else if err != nil {
				t.Fatal(err)
			}
			clock.us.Add(10)
		}
		for i := range 1000 {
			if d := mustTake(t, m, Claim{Key: fmt.Sprint("used", i), Limit: rule}); d.Remaining != 0 {
				t.Fatalf("%v: key %d of a rule was freed: %+v", flood.Algorithm, i, d)
			}
			if d := mustTake(t, m, Claim{Key: fmt.Sprint("using", i), Limit: rule}); d.Remaining != 7 {
				t.Fatalf("%v: key %d of a rule has %d left, want 7", flood.Algorithm, i, d.Remaining)
			}
		}
		s := m.Stats()
		if s.Evictions+s.Unstored > 0 || s.Full || s.Keys != 2000 {
			t.Errorf("%v: rules: %+v", flood.Algorithm, s)
		}
		if s.Callers.Keys > 1000 || int(s.Callers.Refused) < refused || refused == 0 {
			t.Errorf("%v: callers: %+v, %d refused", flood.Algorithm, s.Callers, refused)
		}
		checkReferences(t, &m.states)
		checkReferences(t, m.callers.Load())
	}
}

// The memory of callers' compiled limits counts against their bound, even when
// existing states are rewritten under new limits.
func TestCallersLimitsCountAgainstTheirBound(t *testing.T) {
	const bound = 4000
	most := freeLimits + bound/limitWeight
	for name, key := range map[string]func(i int) string{
		"new keys": func(i int) string { return fmt.Sprint(i) },
		"old keys": func(i int) string { return fmt.Sprint(i % 3000) },
	} {
		m, clock := newTestMemory(MemoryOptions{CallerKeys: bound})
		for i := range 3000 {
			mustTake(t, m, Claim{Key: fmt.Sprint(i), Limit: brought(t, PerDay(5)), Cost: 1})
		}
		for i := range 10_000 {
			l := brought(t, Spec{Limit: int64(1000 + i), Window: 24 * time.Hour})
			if _, err := m.Take(t.Context(), Claim{Key: key(i), Limit: l, Cost: 1}); err != nil {
				t.Fatal(err)
			}
			clock.us.Add(10)
		}
		if s := m.Stats().Callers; s.Limits > most || s.Limits < freeLimits || s.Evictions == 0 {
			t.Errorf("%s: %+v, want at most %d limits", name, s, most)
		}
		checkReferences(t, m.callers.Load())
	}
}

// full returns a store whose room for callers holds only exhausted keys except
// one, using, and two keys that are refused under the same limit.
func full(t *testing.T, s Spec) (m *Memory, l Limit, refused [2]string) {
	t.Helper()
	l = brought(t, s)
	for {
		m, _ = newTestMemory(MemoryOptions{CallerKeys: 2000})
		mustTake(t, m, Claim{Key: "using", Limit: l, Cost: 1})
		n := 0
		for i := 0; n < len(refused) && i < 5000; i++ {
			key := fmt.Sprint("k", i)
			if _, err := m.Take(t.Context(), Claim{Key: key, Limit: l, Cost: 10}); err != nil {
				refused[n] = key
				n++
			}
		}
		if n < len(refused) {
			t.Fatalf("%v: nothing was refused", l)
		}
		// The key "using" must still have its state: a newer key nearby may have evicted it.
		if mustTake(t, m, Claim{Key: "using", Limit: l}).Remaining == 9 {
			return m, l, refused
		}
	}
}

// New keys are neither admitted uncounted nor given the place of an exhausted
// key, alone and in groups. Nothing of a refused group is charged.
func TestCallersAreRefusedWhenAllIsExhausted(t *testing.T) {
	for _, s := range everyAlgorithm() {
		m, l, refused := full(t, s)
		rule := mustCompile(t, s)
		claim := func(key string, l Limit) Claim { return Claim{Key: key, Limit: l, Cost: 1} }
		for name, claims := range map[string][]Claim{
			"alone":              {claim(refused[0], l)},
			"after a rule":       {claim(refused[0], rule), claim(refused[0], l)},
			"before a rule":      {claim(refused[0], l), claim(refused[0], rule)},
			"after one of old":   {claim("using", l), claim(refused[0], l)},
			"several newcomers":  {claim(refused[0], l), claim(refused[1], l)},
			"beside alternative": {{Key: refused[0], Limit: l, Cost: 1, AnyOf: 1}, {Key: "x", Limit: rule, Cost: 1, AnyOf: 1}},
		} {
			out := make([]Decision, len(claims))
			err := m.TakeGroups(t.Context(), []Group{{Claims: claims}}, out)
			groups, ok := errors.AsType[*GroupsError](err)
			if !ok {
				t.Errorf("%v: %s: %+v, %v, want it refused", l, name, out, err)
				continue
			}
			if e, ok := errors.AsType[*Error](groups.Errs[0]); !ok || e.Code != CodeExhausted {
				t.Errorf("%v: %s: %v", l, name, err)
			}
			for _, c := range claims {
				c.Cost = 0
				want := int64(10)
				if c.Key == "using" {
					want = 9
				}
				if d := mustTake(t, m, c); d.Remaining != want {
					t.Errorf("%v: %s: a refused group charged %s of %v: %d left, want %d", l, name, c.Key, c.Limit, d.Remaining, want)
				}
			}
		}
		checkReferences(t, m.callers.Load())
	}
}

// Many more limits than a store can hold at a time come and go, of rules and of
// callers. The store refuses none of them and keeps none of them.
func TestLimitsAreForgottenWithTheirStates(t *testing.T) {
	n := 1<<20 + 1000
	if testing.Short() {
		n = 1 << 16
	}
	m, clock := newTestMemory(MemoryOptions{MaxKeys: 20_000})
	held := mustCompile(t, Spec{Rule: "held", Limit: 10, Window: MaxWindow})
	mustTake(t, m, Claim{Key: "held", Limit: held, Cost: 10})
	before := heapInUse()
	for i := range n {
		s := Spec{Rule: "reloaded", Limit: int64(1 + i), Window: time.Second, FromCaller: i%2 == 0}
		l := mustCompile(t, s)
		d, err := m.Take(t.Context(), Claim{Key: fmt.Sprint(i % 100), Limit: l, Cost: 1})
		if err != nil || !d.Allowed {
			t.Fatalf("limit %d: %+v, %v; %+v", i, d, err, m.Stats())
		}
		if i%4 < 2 { // keys of their own
			mustTake(t, m, Claim{Key: fmt.Sprint("k", i), Limit: l, Cost: 1})
		}
		clock.pass(time.Millisecond)
	}
	if s := m.Stats(); s.Unstored+s.Callers.Refused > 0 || s.Limits > 21_000 || s.Callers.Limits > freeLimits+10_000/limitWeight {
		t.Errorf("%+v", s)
	}
	if grown := int64(heapInUse()) - int64(before); grown > 64<<20 {
		t.Errorf("the heap grew by %d MB", grown>>20)
	}
	if d := mustTake(t, m, Claim{Key: "held", Limit: held, Cost: 1}); d.Allowed {
		t.Error("a key was lost")
	}
	checkReferences(t, &m.states)
	checkReferences(t, m.callers.Load())
	_ = m.Close()
	if s := m.Stats(); s.Limits+s.Callers.Limits+s.Keys+s.Callers.Keys != 0 {
		t.Errorf("after Close: %+v", s)
	}
	if grown := int64(heapInUse()) - int64(before); grown > 8<<20 {
		t.Errorf("after Close the heap is greater by %d MB", grown>>20)
	}
}

func heapInUse() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// Rules alone may hold as many limits as they hold keys.
func TestEveryKeyMayHaveALimitOfItsOwn(t *testing.T) {
	m, _ := newTestMemory(MemoryOptions{MaxKeys: 1 << 20})
	n := 100_000
	if testing.Short() {
		n = 10_000
	}
	limits := make([]Limit, n)
	for i := range limits {
		limits[i] = mustCompile(t, Spec{Limit: int64(10 + i), Window: time.Hour})
		mustTake(t, m, Claim{Key: fmt.Sprint(i), Limit: limits[i], Cost: 3})
	}
	for i := range limits {
		if d := mustTake(t, m, Claim{Key: fmt.Sprint(i), Limit: limits[i]}); d.Remaining != int64(7+i) {
			t.Fatalf("limit %d: %+v", i, d)
		}
	}
	if s := m.Stats(); s.Limits != n || s.Keys != n {
		t.Errorf("%+v", s)
	}
	checkReferences(t, &m.states)
}

// A share of a limit has the spec of the whole, and other numbers.
func TestShareAndWholeAreTwoLimits(t *testing.T) {
	m, _ := newTestMemory(MemoryOptions{})
	whole := mustCompile(t, PerHour(100))
	share, err := whole.Share(4)
	if err != nil {
		t.Fatal(err)
	}
	mustTake(t, m, Claim{Key: "a", Limit: whole, Cost: 1})
	mustTake(t, m, Claim{Key: "b", Limit: share, Cost: 1})
	if s := m.Stats(); s.Limits != 2 {
		t.Errorf("%+v, want two limits", s)
	}
}

// Many goroutines change limits, and add and remove states.
func TestReferencesUnderConcurrency(t *testing.T) {
	m, clock := newTestMemory(MemoryOptions{MaxKeys: 300, CallerKeys: 300})
	specs := everyAlgorithm()
	calls := 20_000
	if testing.Short() {
		calls = 4000
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(g)))
			for range calls {
				churn(t, m, r, specs)
				clock.us.Add(int64(r.IntN(1_000_000)))
			}
		})
	}
	wg.Wait()
	checkReferences(t, &m.states)
	checkReferences(t, m.callers.Load())
	_ = m.Close()
	if s := m.Stats(); s.Limits+s.Callers.Limits != 0 {
		t.Errorf("after Close: %+v", s)
	}
}

// churn makes one random call.
func churn(t *testing.T, m *Memory, r *rand.Rand, specs []Spec) {
	draw := func() Claim {
		s := specs[r.IntN(len(specs))]
		s.Limit += r.Int64N(40)
		s.FromCaller = r.IntN(2) == 0
		if s.Algorithm == LeakyBucket {
			s.Queue = s.Limit
		}
		return Claim{Key: fmt.Sprint(r.IntN(400)), Limit: mustCompile(t, s), Cost: []int64{0, 1, 10, -3, Forget}[r.IntN(5)]}
	}
	var err error
	if r.IntN(2) == 0 {
		_, err = m.Take(context.Background(), draw())
	} else {
		err = m.TakeGroups(context.Background(), []Group{{Claims: []Claim{draw(), draw(), draw()}}}, make([]Decision, 3))
		if groups, ok := errors.AsType[*GroupsError](err); ok {
			err = groups.Errs[0]
		}
	}
	if e, ok := errors.AsType[*Error](err); err != nil && (!ok || e.Code != CodeExhausted && e.Code != CodeInvalid) {
		t.Error(err)
	}
}
