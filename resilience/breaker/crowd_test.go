package breaker

import (
	"math"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/property"
)

// crowded is a breaker that has counted a crowd of quick calls, with a clock that counts
// how often it is read.
type crowded struct {
	*Breaker
	now   time.Duration
	looks int
}

func newCrowd(t *testing.T, o Options) *crowded {
	t.Helper()
	c := &crowded{now: time.Hour}
	o.Clock = func() time.Time { c.looks++; return time.Unix(0, int64(c.now)) }
	o.SlowRatio, o.SlowAfter, o.SlowMinimumCalls, o.Window = 0.5, 10*time.Millisecond, 2, 10*time.Second
	c.Breaker = mustNew(t, o)
	c.now += time.Hour
	c.call(crowd, 0)
	return c
}

// call makes consecutive calls that each take the same time.
func (c *crowded) call(n int, takes time.Duration) {
	for range n {
		call, _ := c.Begin()
		c.now += takes
		call.Success()
	}
}

func eachCrowd(t *testing.T, test func(t *testing.T, c *crowded)) {
	t.Run("ofTime", func(t *testing.T) { test(t, newCrowd(t, Options{})) })
	t.Run("ofCalls", func(t *testing.T) { test(t, newCrowd(t, Options{WindowCalls: 10_000})) })
}

func TestCrowdOfQuickCallsIsTimedOnce(t *testing.T) {
	eachCrowd(t, func(t *testing.T, c *crowded) {
		c.looks = 0
		c.call(500, time.Microsecond)
		if c.looks != 500 {
			t.Errorf("%d reads of the clock for 500 calls", c.looks)
		}
	})
}

// A quick call after a pause is not slow, however long the pause.
func TestPauseOfACrowdIsNotSlow(t *testing.T) {
	eachCrowd(t, func(t *testing.T, c *crowded) {
		for range 5 {
			c.now += 50 * time.Millisecond
			c.call(1, time.Microsecond)
		}
		if n := c.Counts().Slow; n != 0 {
			t.Errorf("%d quick calls count as slow", n)
		}
	})
}

// One slow call in a crowded part is not counted as slow; for a whole window after it,
// every slow call is.
func TestSlownessIsFoundInACrowd(t *testing.T) {
	eachCrowd(t, func(t *testing.T, c *crowded) {
		c.call(1, 10*time.Millisecond)
		if n := c.Counts().Slow; n != 0 {
			t.Errorf("%d slow calls, want none: the first is not known to be slow", n)
		}
		c.call(20, 10*time.Millisecond)
		if n := c.Counts().Slow; n != 20 {
			t.Errorf("%d of 20 slow calls are counted", n)
		}
		c.call(1, 10*time.Millisecond-1)
		if n := c.Counts().Slow; n != 20 {
			t.Error("a call that was not slow is counted as slow")
		}
	})
}

func TestCrowdIsSparedAgainAfterAWindow(t *testing.T) {
	c := newCrowd(t, Options{WindowCalls: 10_000})
	c.call(1, 10*time.Millisecond)
	c.now += 10 * time.Second
	c.call(1, 0)
	c.looks = 0
	c.call(10, 0)
	if c.looks != 10 {
		t.Errorf("%d reads of the clock for 10 calls", c.looks)
	}
}

// The end of a call whose caller gives up in a crowded part counts for nothing, because
// its duration is unknown.
func TestGivingUpInACrowd(t *testing.T) {
	eachCrowd(t, func(t *testing.T, c *crowded) {
		before := c.Counts()
		for i := range 3 {
			call, _ := c.Begin()
			c.now += time.Second
			call.Ignore()
			if got := c.Counts(); got.Slow != i || got.Calls != before.Calls+i {
				t.Errorf("after %d: %+v", i+1, got)
			}
		}
	})
}

// After a crowd every call counts once, and no quick call counts as slow. For a whole
// window after a slow call that was not counted as slow, every slow call is.
func TestNoSecondSlowCallEscapesACrowd(t *testing.T) {
	property.Check(t, func(t *property.T) {
		const window, slowAfter = 100 * time.Second, 10 * time.Millisecond // long enough that nothing leaves the window
		var clock clock
		clock.pass(property.Pick[time.Duration](t, "began", 0, 1, time.Hour))
		o := Options{MinimumCalls: math.MaxInt32, Window: window, SlowAfter: slowAfter, Clock: clock.read}
		if t.Bool("by calls") {
			o.WindowCalls, o.MinimumCalls = 5000, 5000
		}
		b, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		want, exactUntil := Counts{}, time.Duration(0)
		call := func(takes time.Duration, failed bool) {
			began := clock.elapsed()
			call, _ := b.Begin()
			clock.pass(takes)
			call.end(failed)
			got := b.Counts()
			want.Calls, want.Failures = want.Calls+1, want.Failures+one(failed)
			switch escaped := takes >= slowAfter && got.Slow == want.Slow; {
			case escaped && began < exactUntil:
				t.Fatalf("a slow call of %v was not counted at %v", takes, began)
			case escaped:
				exactUntil = clock.elapsed() + window
			default:
				want.Slow += one(takes >= slowAfter)
			}
			if got != want {
				t.Fatalf("%+v, want %+v", got, want)
			}
		}
		for range crowd + 10 {
			call(time.Microsecond, false)
		}
		for range t.Int("calls", 1, 150) {
			clock.pass(property.Pick[time.Duration](t, "pause", 0, 1, slowAfter/sightings, slowAfter-1, slowAfter, 300*time.Millisecond))
			takes := property.Pick[time.Duration](t, "takes", 0, 1, slowAfter/2, slowAfter-1, slowAfter, 4*slowAfter)
			call(takes, t.Int("fails", 0, 5) == 5)
		}
	})
}

// The estimated beginning of a call must not be long before its real beginning. If it were,
// every call would be timed.
func TestCallsOfACrowdBeginWhereTheLastEnded(t *testing.T) {
	eachCrowd(t, func(t *testing.T, c *crowded) {
		c.call(1, 5*time.Millisecond)
		c.call(1, 6*time.Millisecond)
		c.looks = 0
		c.call(1, 0)
		if c.looks != 1 {
			t.Errorf("%d reads of the clock", c.looks)
		}
	})
}

// A call that began before a Reset does not count after it.
func TestQuickCallOfAnotherRunDoesNotCount(t *testing.T) {
	eachCrowd(t, func(t *testing.T, c *crowded) {
		old, _ := c.Begin()
		c.Reset()
		old.Success()
		if got := c.Counts(); got != (Counts{}) {
			t.Errorf("%+v", got)
		}
	})
}
