package clock

import (
	"math/bits"
	"strings"
	"sync"
	"testing"
	"time"
)

// checked returns a check whose last reading is count 0 at the given time.
func checked(at time.Time) *cycleCheck {
	return &cycleCheck{first: reading{at: at}, last: reading{at: at}, trusted: func() bool { return true }}
}

func TestCounterIsGivenUpWhenItDisagrees(t *testing.T) {
	for _, c := range []struct {
		name            string
		passed, counted time.Duration
		took            uint64
		want            string
	}{
		{"equal", time.Second, time.Second, 0, ""},
		{"slewed by NTP", time.Second, time.Second + 500*time.Microsecond, 0, ""},
		{"slewed by NTP over an idle hour", time.Hour, time.Hour - 1800*time.Millisecond, 0, ""},
		{"within the error of the reading", time.Second, time.Second + 3*time.Millisecond, 2_000_000, ""},
		{"faster", time.Second, time.Second + 2*time.Millisecond, 0, "passed 1.002s while the system's clock passed 1s"},
		{"slower after a migration", 1500 * time.Millisecond, time.Second, 0, "passed 1s while"},
		{"counts during a suspension", time.Second, 8 * time.Hour, 0, "passed 8h0m0s while"},
		{"stands still", time.Minute, 0, 0, "passed 0s while"},
		{"restarts", time.Second, -time.Hour, 0, "ran backwards"},
	} {
		at := time.Now()
		_, reason := checked(at).check(reading{count: uint64(c.counted), at: at.Add(c.passed), took: c.took}, perNanosecond)
		if (reason == "") != (c.want == "") || !strings.Contains(reason, c.want) {
			t.Errorf("%s: %q, want %q", c.name, reason, c.want)
		}
	}
}

func TestCounterIsGivenUpWhenTheKernelDoes(t *testing.T) {
	at := time.Now()
	k := checked(at)
	k.trusted = func() bool { return false }
	for i := 1; i <= kernelEvery; i++ {
		_, reason := k.check(reading{count: uint64(i) * uint64(time.Second), at: at.Add(time.Duration(i) * time.Second)}, perNanosecond)
		if (reason == "the kernel keeps time by another clock") != (i == kernelEvery) {
			t.Errorf("comparison %d: %q", i, reason)
		}
	}
}

// onWrongCounter returns a clock that reads the processor's counter by an anchor
// that begins the given number of counts from now, and takes a count for a
// thousandth of a nanosecond. On a machine without such a counter, the count
// stands still at 0. Either way it disagrees with the system's clocks.
func onWrongCounter(begins int64, onFallback func(string)) *Clock {
	c := &Clock{}
	c.Init(Options{OnFallback: onFallback})
	a := *c.anchor.Load()
	a.cycles, a.start = true, cycles()+uint64(begins)
	a.rate, a.full = perNanosecond/1000, perNanosecond/1000
	a.span = countsOf(1_000_000, a.full)
	c.cycles = *checked(c.base.Add(-time.Minute))
	c.cycles.last.count = cycles()
	c.anchor.Store(&a)
	return c
}

// However far the counter leaps, and in either direction, no reader sees the
// time leap, and one reader reports the fallback.
func TestClockFallsBackBeforeItShowsALeap(t *testing.T) {
	for _, begins := range []int64{-1 << 62, -1 << 60, -1 << 52, 1 << 52, 1 << 60} {
		var (
			reasons []string
			mu      sync.Mutex
			readers sync.WaitGroup
		)
		c := onWrongCounter(begins, func(reason string) {
			mu.Lock()
			defer mu.Unlock()
			reasons = append(reasons, reason)
		})
		for range 4 {
			readers.Go(func() {
				for range 100 {
					showsTheWallClock(t, c)
				}
			})
		}
		readers.Wait()
		if len(reasons) != 1 || !strings.Contains(reasons[0], "the processor's counter") || c.anchor.Load().cycles {
			t.Errorf("begins %d: fell back for %q", begins, reasons)
		}
	}
}

// A clock that is slightly ahead when it falls back runs slower, not backwards. A
// great lead is dropped.
func TestClockAfterAFallback(t *testing.T) {
	for _, c := range []struct{ ahead, want time.Duration }{
		{100 * time.Millisecond, 100 * time.Millisecond}, {time.Hour, 0}, {-100 * time.Millisecond, 0},
	} {
		clock := onWrongCounter(0, nil)
		a := clock.anchor.Load()
		a.wall, a.start = time.Now().Add(c.ahead).UnixMicro(), cycles()
		b, reason := clock.compare(a)
		if reason == "" || b.cycles {
			t.Fatal("the counter was not given up")
		}
		ahead := time.Duration(b.at(clock.count(b))-time.Now().UnixMicro()) * time.Microsecond
		if (ahead - c.want).Abs() > 20*time.Millisecond {
			t.Errorf("ahead by %v: by %v after the fallback, want %v", c.ahead, ahead, c.want)
		}
	}
}

func TestProcessorClockKeepsACounterThatAgrees(t *testing.T) {
	var c Clock
	c.Init(Options{Processor: true, OnFallback: func(reason string) { t.Error(reason) }})
	if !c.anchor.Load().cycles {
		t.Skip("the kernel does not keep time by the processor's counter")
	}
	for range 3 {
		for begun := time.Now(); time.Since(begun) < measureFor; {
			showsTheWallClock(t, &c)
		}
		a := *c.anchor.Load()
		a.span = 1 // the next reading compares
		c.anchor.Store(&a)
	}
	if !c.anchor.Load().cycles {
		t.Error("the counter was given up")
	}
}

func TestCounterRateIsExact(t *testing.T) {
	for _, c := range []struct {
		elapsed time.Duration
		counts  uint64
		micros  uint64 // microseconds of a million counts
	}{
		{time.Second, 1_000_000_000, 1000}, {2 * time.Millisecond, 2_000_000, 1000}, {time.Hour, 3600 * 2_500_000_000, 400},
		{time.Second, 1_000_001, 999_999}, {time.Second, 1000, 5}, {time.Second, 0, 5},
	} {
		otherwise, _ := bits.Div64(5, 0, 1_000_000)
		rate := rateOf(c.elapsed, c.counts, otherwise)
		if got := countsOf(c.micros, rate); got < 999_999 || got > 1_000_002 {
			t.Errorf("%d counts in %v: %d counts in %d µs", c.counts, c.elapsed, got, c.micros)
		}
	}
}
