package stint

import (
	"math/bits"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

const wallStart = int64(1_700_000_000_000_000)

func firstAnchor() *anchor {
	return &anchor{wall: wallStart, span: uint64(time.Second), rate: perNanosecond, full: perNanosecond}
}

// nanos is a time on the steady counter of these tests.
func nanos(d time.Duration) uint64 { return uint64(d) }

func TestAnchorCountsWholeMicroseconds(t *testing.T) {
	a := firstAnchor()
	for _, d := range []time.Duration{0, 1, 999, 1000, 1001, 999_999_999, time.Second, time.Hour, time.Hour - 1} {
		if got, want := a.at(nanos(d)), wallStart+d.Microseconds(); got != want {
			t.Errorf("after %d ns: %d, want %d", d, got-wallStart, want-wallStart)
		}
	}
}

func TestAnchorFollowsTheWallClock(t *testing.T) {
	const sync = time.Second + 300*time.Nanosecond
	for _, step := range []struct {
		name      string
		wall      time.Duration // how far the wall clock is ahead
		later     time.Duration // after the comparison
		wantAhead time.Duration // of what it would have been
	}{
		{"agrees at once", 0, 0, 0},
		{"agrees later", 0, time.Minute, 0},
		{"ahead counts at once", time.Hour, 0, time.Hour},
		{"ahead counts later", time.Hour, time.Minute, time.Hour},
		{"ahead by one", time.Microsecond, time.Minute, time.Microsecond},
		{"behind does not count at once", -100 * time.Millisecond, 0, 0},
		{"behind is half made up in half a second", -100 * time.Millisecond, time.Second/2 + time.Second/headStart, -50 * time.Millisecond},
		{"behind is made up in a second", -100 * time.Millisecond, 2 * time.Second, -100 * time.Millisecond},
		{"far behind runs at half the speed", -time.Hour, time.Second/2 + time.Second/headStart, -250 * time.Millisecond},
		{"far behind for a second at most", -time.Hour, time.Minute, -500 * time.Millisecond},
	} {
		a := firstAnchor()
		b := a.next(nanos(sync), wallStart*1000+int64(sync+step.wall), perNanosecond)
		at := nanos(sync + step.later)
		if got := time.Duration(b.at(at)-a.at(at)) * time.Microsecond; got != step.wantAhead {
			t.Errorf("%s: %v ahead, want %v", step.name, got, step.wantAhead)
		}
	}
}

// Readers that still have the last anchor and readers that have the new one
// must never see time run back between them, unless the wall clock was set
// forward in between.
func TestClockNeverRunsBack(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	runs := 2000
	if testing.Short() {
		runs /= 10
	}
	for range runs {
		a, count, ahead := firstAnchor(), uint64(0), int64(0)
		for range 20 {
			count = max(count, a.start) + uint64(time.Second) + r.Uint64N(uint64(time.Second))
			ahead += r.Int64N(2_000_000_001) - 1_000_000_000
			b := a.next(count, wallStart*1000+int64(count)+ahead, perNanosecond)
			for later := uint64(0); later < 2*uint64(time.Second); later += r.Uint64N(uint64(time.Second) / 50) {
				old, now, next := a.at(count+later), b.at(count+later), b.at(count+later+1)
				if later <= uint64(time.Second)/headStart && now < old || next < now {
					t.Fatalf("seed %d: %v after a comparison %d, then %d, then %d", seed, time.Duration(later), old, now, next)
				}
			}
			a = b
		}
	}
}

func TestClockIsTheWallClock(t *testing.T) {
	for _, processor := range []bool{false, true} {
		var c clock
		c.init(nil, processor)
		before := time.Now().UnixMicro()
		got := c.now()
		if after := time.Now().UnixMicro(); got < before-1000 || got > after+1000 {
			t.Errorf("processor's %t: the clock says %d, the wall clock %d to %d", processor, got, before, after)
		}
	}
}

func TestClockPassesWithTheWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		c.init(nil, false)
		for _, d := range []time.Duration{1500, time.Millisecond, 3 * time.Second, time.Hour, time.Second / 3, 200 * 24 * time.Hour} {
			time.Sleep(d)
			if got, want := c.now(), time.Now().UnixMicro(); got != want {
				t.Errorf("after %v more: %d, want %d", d, got, want)
			}
		}
	})
}

// A bubble's time stands still while anything runs in it, so the processor's
// counter cannot be measured: the clock then passes with the bubble's.
func TestProcessorClockInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		c.init(nil, true)
		if c.startCounter(nil) != nil || c.cycles {
			t.Error("the counter was measured against time that stands still")
		}
		store := NewMemory(MemoryOptions{ProcessorClock: true})
		limit, err := ParseLimit("1/m")
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []bool{true, false, true} {
			time.Sleep(time.Duration(i) * 20 * time.Second)
			if got, err := store.Take(t.Context(), Claim{Key: "k", Limit: limit, Cost: 1}); err != nil || got.Allowed != want {
				t.Errorf("take %d: %+v, %v, want allowed %t", i, got, err, want)
			}
			if got, want := c.now(), time.Now().UnixMicro(); got != want {
				t.Errorf("take %d: the clock says %d, want %d", i, got, want)
			}
		}
	})
}

func TestGivenClockStaysInRange(t *testing.T) {
	for _, given := range []struct{ says, want int64 }{{-1, 0}, {0, 0}, {wallStart, wallStart}, {1 << 60, maxMicros}} {
		var c clock
		c.init(func() int64 { return given.says }, false)
		if got := c.now(); got != given.want {
			t.Errorf("given %d: %d, want %d", given.says, got, given.want)
		}
	}
}

func TestCounterRateIsExact(t *testing.T) {
	for _, c := range []struct {
		elapsed time.Duration
		counts  uint64
		micros  uint64 // of a million counts
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
