package retrybudget

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint/internal/property"
	"github.com/stintdev/stint/resilience/internal/tenths"
)

func mustNew(tb testing.TB, o Options) *Budget {
	tb.Helper()
	b, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// clock is a clock that a test sets.
type clock struct{ now atomic.Int64 }

func (c *clock) read() time.Time        { return time.Unix(0, c.now.Load()) }
func (c *clock) elapsed() time.Duration { return time.Duration(c.now.Load()) }
func (c *clock) pass(d time.Duration)   { c.now.Add(int64(d)) }

// granted returns how many retries are granted until the budget refuses one.
func granted(b *Budget) (n int) {
	for b.Retry() {
		n++
	}
	return n
}

func TestSteps(t *testing.T) {
	const s = time.Second
	type step struct {
		after    time.Duration
		requests int
		want     int // retries granted until one is refused
	}
	for _, c := range []struct {
		name  string
		o     Options
		steps []step
	}{
		{"aTenthUnlessSaid", Options{PerSecond: NoShare}, []step{{0, 9, 0}, {0, 1, 1}, {0, 19, 1}, {0, 1, 1}}},
		{"oneASecondUnlessSaid", Options{}, []step{{0, 0, 10}, {0, 10, 1}}},
		{"leastRateAlone", Options{Share: NoShare, PerSecond: 0.5}, []step{{0, 1000, 5}, {9 * s, 1000, 0}, {s, 0, 5}}},
		{"shareIsExactInDecimal", Options{Share: 0.29, PerSecond: NoShare}, []step{{0, 100, 29}}},
		{"oldRequestsGrantNothing", Options{PerSecond: NoShare}, []step{{0, 100, 10}, {10 * s, 0, 0}, {0, 10, 1}}},
		{"requestsCountToTheLastTenth", Options{PerSecond: NoShare}, []step{{0, 50, 5}, {9*s + s - 1, 50, 5}, {1, 0, 0}}},
		{"retriesCountAsLongAsRequests", Options{PerSecond: NoShare}, []step{{0, 100, 10}, {5 * s, 100, 10}, {5 * s, 0, 0}, {0, 10, 1}}},
		{"longSilenceForgetsAll", Options{}, []step{{0, 100, 20}, {3600 * s, 0, 10}}},
		{"allOfThem", Options{Share: 1, PerSecond: NoShare}, []step{{0, 7, 7}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var clock clock
			c.o.Clock = clock.read
			b := mustNew(t, c.o)
			for i, step := range c.steps {
				clock.pass(step.after)
				for range step.requests {
					b.Request()
				}
				left := b.Usage().Left
				if got := granted(b); got != step.want || left != int64(got) {
					t.Fatalf("step %d: granted %d after saying %d, want %d", i, got, left, step.want)
				}
			}
		})
	}
}

// However many goroutines ask at once, the budget grants exactly its retries.
func TestGoroutinesGetExactlyTheBudget(t *testing.T) {
	b := mustNew(t, Options{PerSecond: 1, Window: time.Hour, Clock: new(clock).read})
	var sent, got atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 2000 {
				b.Request()
				sent.Add(1)
				for b.Retry() {
					if got.Add(1) > 3600+sent.Load()/10+16 { // 16 requests may be counted and not yet seen here
						t.Error("granted more than the budget")
					}
				}
			}
		})
	}
	wg.Wait()
	if want := int64(3600 + 16*2000/10); got.Load() != want {
		t.Errorf("granted %d, want exactly %d", got.Load(), want)
	}
}

func TestRefundMakesRoom(t *testing.T) {
	var clock clock
	b := mustNew(t, Options{Share: NoShare, PerSecond: 0.2, Clock: clock.read})
	b.Refund() // there is no retry to return
	if n := granted(b); n != 2 {
		t.Fatalf("granted %d, want 2", n)
	}
	clock.pass(10*time.Second - 1)
	b.Refund()
	if u := b.Usage(); u != (Usage{Retries: 1, Left: 1}) {
		t.Errorf("%+v", u)
	}
	clock.pass(1)
	b.Refund() // the retry has left the window
	if u := b.Usage(); u != (Usage{Left: 2}) {
		t.Errorf("%+v", u)
	}
}

// A clock that goes back, against its contract, loses no counts and grants no further
// retries.
func TestClockThatRunsBack(t *testing.T) {
	var clock clock
	b := mustNew(t, Options{Clock: clock.read})
	clock.pass(time.Hour)
	b.Request()
	if n := granted(b); n != 10 {
		t.Fatalf("granted %d", n)
	}
	clock.pass(-30 * time.Minute)
	b.Request()
	clock.pass(-2 * time.Hour)
	if u := b.Usage(); u != (Usage{Requests: 2, Retries: 10}) {
		t.Errorf("%+v", u)
	}
	clock.pass(3 * time.Hour)
	if n := granted(b); n != 10 {
		t.Errorf("granted %d after all that", n)
	}
}

// A clock below zero counts as zero.
func TestClockBelowZero(t *testing.T) {
	var clock clock
	clock.pass(-time.Hour)
	b := mustNew(t, Options{Clock: clock.read})
	b.Request()
	if n := granted(b); n != 10 {
		t.Errorf("granted %d", n)
	}
}

// The budget grants the same retries as a model that remembers every request.
func TestBudgetIsItsModel(t *testing.T) {
	property.Check(t, func(t *property.T) {
		var clock clock
		share := t.Int("percent", 1, 100)
		least := t.Int("least in a window", 0, 5)
		o := Options{Share: float64(share) / 100, PerSecond: NoShare, Window: time.Second, Clock: clock.read}
		if least > 0 {
			o.PerSecond = float64(least)
		}
		b, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		var requests, retries []time.Duration
		within := func(all []time.Duration) (n int) {
			for _, at := range all {
				if clock.elapsed()/(time.Second/tenths.Parts)-at/(time.Second/tenths.Parts) < tenths.Parts {
					n++
				}
			}
			return n
		}
		for range t.Int("events", 1, 300) {
			clock.pass(property.Pick[time.Duration](t, "pause", 0, 0, 0, 1, time.Millisecond, 99*time.Millisecond, 350*time.Millisecond, time.Second, time.Hour))
			if t.Bool("request") {
				b.Request()
				requests = append(requests, clock.elapsed())
				continue
			}
			want := 100*(within(retries)+1) <= share*within(requests)+100*least
			if got := b.Retry(); got != want {
				t.Fatalf("granted %v, want %v", got, want)
			} else if got {
				retries = append(retries, clock.elapsed())
			}
		}
	})
}

// Over any time, the retries are at most what the package promises.
func TestRetriesOverAnyTime(t *testing.T) {
	property.Check(t, func(t *property.T) {
		const window = time.Second
		var clock clock
		o := Options{Share: 0.5, PerSecond: 10, Window: window, Clock: clock.read}
		b, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		var requests, retries []time.Duration
		for range t.Int("steps", 1, 40) {
			clock.pass(property.Pick[time.Duration](t, "pause", 0, 1, 99_999_999, 100*time.Millisecond, 801*time.Millisecond, 900_000_001, window))
			for range t.Int("requests", 0, 6) {
				b.Request()
				requests = append(requests, clock.elapsed())
			}
			for range granted(b) {
				retries = append(retries, clock.elapsed())
			}
			now := clock.elapsed()
			for i, from := range retries {
				earned := slices.IndexFunc(requests, func(at time.Duration) bool { return at > from-window })
				if earned < 0 {
					earned = len(requests)
				}
				most := o.Share*float64(len(requests)-earned) + o.PerSecond*(now-from+window+window/tenths.Parts).Seconds()
				if got := len(retries) - i; float64(got) > most {
					t.Fatalf("%d retries from %v to %v, want at most %v", got, from, now, most)
				}
			}
		}
	})
}

func TestOwnClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, Options{})
		if n := granted(b); n != 10 {
			t.Fatalf("granted %d", n)
		}
		time.Sleep(10*time.Second - 1)
		if b.Retry() {
			t.Error("a nanosecond early")
		}
		time.Sleep(time.Nanosecond)
		if !b.Retry() {
			t.Error("on time, and refused")
		}
	})
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	for name, o := range map[string]Options{
		"Share: is -0.1":     {Share: -0.1},
		"Share: is 1.1":      {Share: 1.1},
		"PerSecond: is -0.5": {PerSecond: -0.5},
		"Window: is 9ns":     {Window: 9},
	} {
		if b, err := New(o); err == nil || b != nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want an error that says so", name, err)
		}
	}
}

func TestNothingIsAllocated(t *testing.T) {
	b := mustNew(t, Options{})
	if n := testing.AllocsPerRun(1000, func() { b.Request(); b.Retry() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRequest(b *testing.B) {
	budget := mustNew(b, Options{})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			budget.Request()
		}
	})
}

func BenchmarkRetry(b *testing.B) {
	budget := mustNew(b, Options{})
	b.ReportAllocs()
	for b.Loop() {
		budget.Retry()
	}
}
