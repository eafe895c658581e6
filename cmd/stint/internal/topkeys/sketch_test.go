package topkeys

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storetest"
)

// counted is a store that answers every claim, over a sketch.
type counted struct {
	*Store

	t      *testing.T
	sketch *Sketch
	limit  stint.Limit
}

func newCounted(t *testing.T, rate int64) *counted {
	t.Helper()
	s := New(rate)
	return &counted{NewStore(answering{}, s, nil), t, s, ruleLimit(t, "api")}
}

func ruleLimit(t testing.TB, rule string) stint.Limit {
	t.Helper()
	l, err := stint.Spec{Rule: rule, Limit: 1, Window: time.Second}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

type answering struct{}

func (answering) Take(context.Context, stint.Claim) (stint.Decision, error) {
	return stint.Decision{}, nil
}

func (answering) TakeGroups(context.Context, []stint.Group, []stint.Decision) error { return nil }

func (c *counted) take(key string, n int) {
	c.t.Helper()
	for range n {
		if _, err := c.Take(c.t.Context(), stint.Claim{Key: key, Limit: c.limit, Cost: 1}); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *counted) hot(key string) bool { return c.sketch.Hot(c.limit, key) }

func TestAKeyAboveTheRateIsHot(t *testing.T) { synctest.Test(t, testAKeyAboveTheRateIsHot) }

func testAKeyAboveTheRateIsHot(t *testing.T) {
	c := newCounted(t, 100)
	c.take("busy", 99)
	c.take("quiet", 50)
	if c.hot("busy") || len(c.sketch.EndInterval(time.Second)) != 0 {
		t.Error("99 requests are hot")
	}
	c.take("busy", 100)
	if !c.hot("busy") || c.hot("quiet") || c.hot("unknown") {
		t.Error("100 requests are not hot at once, or another key is")
	}
	got := c.sketch.EndInterval(time.Second)
	if len(got) != 1 || got[0] != (Key{"api", "busy", 100}) || c.sketch.HotKeys() != 1 {
		t.Errorf("%+v", got)
	}
	if !c.hot("busy") {
		t.Error("not hot in the next interval")
	}
	if got := c.sketch.EndInterval(time.Second); len(got) != 0 || c.hot("busy") || c.sketch.HotKeys() != 0 {
		t.Errorf("%+v: still hot without a request", got)
	}
	c.take("busy", 150)
	if got := c.sketch.EndInterval(2 * time.Second); len(got) != 0 {
		t.Errorf("75 requests a second are hot: %+v", got)
	}
	time.Sleep(time.Second + time.Millisecond) // the end of the interval is late
	if c.take("busy", 150); c.hot("busy") {
		t.Error("hot for the requests of more than a second")
	}
	c.sketch.EndInterval(time.Second)
	if !c.hot("busy") {
		t.Error("not hot after 150 requests in a second")
	}
	if time.Sleep(time.Minute); c.hot("busy") {
		t.Error("still hot a minute later, because no interval has ended")
	}
}

func TestWhatCounts(t *testing.T) {
	c := newCounted(t, 10)
	other := ruleLimit(t, "other")
	caller, err := stint.Spec{Rule: "api", Limit: 1, Window: time.Second, FromCaller: true}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	second, err := stint.Spec{Rule: "api", Name: "second", Limit: 1, Window: time.Second}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	claim := func(l stint.Limit, key string, cost int64) stint.Claim {
		return stint.Claim{Key: key, Limit: l, Cost: cost}
	}
	groups := []stint.Group{
		{Claims: []stint.Claim{claim(c.limit, "k", 1), claim(second, "k", 1), claim(other, "k", 1)}}, // two limits of one rule
		{Claims: []stint.Claim{claim(c.limit, "k", 5)}, Shadows: [][]stint.Claim{{claim(c.limit, "k", 1)}}},
		{Claims: []stint.Claim{claim(c.limit, "k", 0)}},
		{Claims: []stint.Claim{claim(c.limit, "k", -1)}},
		{Claims: []stint.Claim{claim(c.limit, "dry", 1), claim(other, "dry", 1)}, Dry: true},
		{Claims: []stint.Claim{claim(caller, "k", 1)}},
		{Claims: []stint.Claim{{Key: "k", Cost: 1}}}, // the store refuses it
		{},
	}
	for range 10 {
		if err := c.TakeGroups(t.Context(), groups, make([]stint.Decision, 11)); err != nil {
			t.Fatal(err)
		}
		for i := range groups {
			if len(groups[i].Claims) == 1 {
				_, _ = c.Take(t.Context(), groups[i].Claims[0])
			}
		}
	}
	want := map[Key]bool{{"api", "k", 30}: true, {Takes, "k", 20}: true, {"other", "k", 10}: true}
	for _, got := range c.sketch.EndInterval(time.Second) {
		if !want[got] {
			t.Errorf("%+v", got)
		}
		delete(want, got)
	}
	if len(want) != 0 {
		t.Errorf("missing: %v", want)
	}
}

// A million invented keys, spread between its requests, neither hide a hot key nor become
// hot themselves.
func TestAFloodOfKeysHidesNoHotKey(t *testing.T) {
	c := newCounted(t, 10_000)
	for interval := range 3 {
		for i := range 300_000 {
			if c.take(fmt.Sprintf("invented %d/%d", interval, i), 1); i%25 == 0 {
				c.take("busy", 1)
			}
		}
		got := c.sketch.EndInterval(time.Second)
		if len(got) != 1 || got[0].Key != "busy" || got[0].PerSecond < 10_500 || got[0].PerSecond > 13_500 {
			t.Errorf("interval %d: %+v, want busy with 12000", interval, got)
		}
	}
}

// With many claims a second only a part is counted, and stands for all.
func TestSamplingKeepsTheRate(t *testing.T) {
	c := newCounted(t, 10_000)
	groups := make([]stint.Group, 100)
	for i := range groups {
		key := "busy"
		if i%10 != 0 {
			key = fmt.Sprint("key", i)
		}
		groups[i].Claims = []stint.Claim{{Key: key, Limit: c.limit, Cost: 1}}
	}
	out := make([]stint.Decision, len(groups))
	for _, weight := range []int64{1, 16, 16} {
		if got := c.sketch.weight.Load(); got != weight {
			t.Errorf("weight %d, want %d", got, weight)
		}
		for range 20_000 {
			_ = c.TakeGroups(t.Context(), groups, out)
		}
		got := c.sketch.EndInterval(time.Second)
		if len(got) == 0 || got[0].Key != "busy" || got[0].PerSecond < 190_000 || got[0].PerSecond > 210_000 {
			t.Errorf("weight %d: %+v, want busy with 200000", weight, got)
		}
	}
	c.sketch.EndInterval(time.Second)
	if got := c.sketch.weight.Load(); got != 1 {
		t.Errorf("weight %d without load", got)
	}
}

// A key somewhat below the rate is not hot by chance, and one clearly above it is always
// found, whether its claims come alone or in batches that are all alike.
func TestSamplingMakesNoKeyHotByChance(t *testing.T) {
	synctest.Test(t, testSamplingMakesNoKeyHotByChance)
}

func testSamplingMakesNoKeyHotByChance(t *testing.T) {
	c := newCounted(t, 10_000)
	c.sketch.weight.Store(maxWeight)
	second := ruleLimit(t, "api")
	groups := make([]stint.Group, 1000)
	for i := range groups { // a rule with two limits
		groups[i].Claims = []stint.Claim{{Key: "k", Limit: c.limit, Cost: 1}, {Key: "k", Limit: second, Cost: 1}}
	}
	out := make([]stint.Decision, 2*len(groups))
	for name, take := range map[string]func(){
		"alone": func() { c.take("k", 1000) },
		"batch": func() { _ = c.TakeGroups(t.Context(), groups, out) },
	} {
		for thousands, want := range map[int]bool{9: false, 14: true} {
			for range 20 {
				for range thousands {
					take()
				}
				early, end := c.hot("k"), len(c.sketch.EndInterval(time.Second)) == 1
				if c.sketch.weight.Store(maxWeight); early != want || end != want {
					t.Fatalf("%s, %d a second: hot %v, and %v at the end", name, thousands*1000, early, end)
				}
				c.sketch.EndInterval(time.Second)
				c.sketch.weight.Store(maxWeight)
			}
		}
	}
}

// A low rate leaves too few claims to leave some out.
func TestALowRateIsCountedInFull(t *testing.T) {
	for rate, want := range map[int64]int64{1: 1, 1249: 1, 1250: 2, 5000: 8, 9999: 8, 10_000: 16, 1_000_000: 16} {
		c := newCounted(t, rate)
		c.take("k", 20_000)
		c.sketch.EndInterval(10 * time.Millisecond)
		if got := c.sketch.weight.Load(); got != want {
			t.Errorf("rate %d: one claim in %d is counted, want one in %d", rate, got, want)
		}
	}
}

func TestManyGoroutinesCountExactly(t *testing.T) {
	c := newCounted(t, 1)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { c.take("k", 1000) })
		all.Go(func() { c.sketch.Top(Minute, true) })
	}
	all.Wait()
	if got := c.sketch.EndInterval(time.Second); len(got) != 1 || got[0].PerSecond != 8000 {
		t.Errorf("%+v", got)
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	c := newCounted(t, 100)
	claim := stint.Claim{Key: "k", Limit: c.limit, Cost: 1}
	groups, out := []stint.Group{{Claims: []stint.Claim{claim, claim}}}, make([]stint.Decision, 2)
	if n := testing.AllocsPerRun(1000, func() {
		_, _ = c.Take(t.Context(), claim)
		_ = c.TakeGroups(t.Context(), groups, out)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestItIsTheStoreThatItWraps(t *testing.T) {
	storetest.Run(t, func(_ *testing.T, clock func() time.Time) stint.Store {
		return NewStore(stint.NewMemory(stint.MemoryOptions{Clock: clock}), New(10), nil)
	})
}

// BenchmarkTake measures checks of limits in memory, alone and counted, with the part of
// the claims that is counted under load: single ones of one key and of many, and batches.
func BenchmarkTake(b *testing.B) {
	memory := stint.NewMemory(stint.MemoryOptions{MaxKeys: 1000})
	sampled := New(10_000)
	sampled.weight.Store(maxWeight)
	limit := ruleLimit(b, "api")
	groups := make([]stint.Group, 100)
	for i := range groups {
		groups[i].Claims = []stint.Claim{{Key: fmt.Sprint("sk_live_", i), Limit: limit, Cost: 1}}
	}
	invented := make([]stint.Claim, 100_000)
	for i := range invented {
		invented[i] = stint.Claim{Key: fmt.Sprint("invented ", i), Limit: limit, Cost: 1}
	}
	out := make([]stint.Decision, len(groups))
	for _, c := range []struct {
		name  string
		store stint.Store
	}{{"alone", memory}, {"all", NewStore(memory, New(10_000), nil)}, {"sampled", NewStore(memory, sampled, nil)}} {
		ctx := b.Context()
		b.Run("one/"+c.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := c.store.Take(ctx, groups[0].Claims[0]); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("invented/"+c.name, func(b *testing.B) {
			for n := 0; b.Loop(); n++ {
				if _, err := c.store.Take(ctx, invented[n%len(invented)]); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("batch/"+c.name, func(b *testing.B) {
			for b.Loop() {
				if err := c.store.TakeGroups(ctx, groups, out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
