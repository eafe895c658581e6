package breaker

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// crowded is a breaker that has seen a crowd of quick calls, and a clock that
// counts how often it was read.
type crowded struct {
	*Breaker
	now   time.Duration
	looks int
}

func newCrowd(t *testing.T, o Options) *crowded {
	t.Helper()
	c := &crowded{now: time.Hour}
	o.Clock = func() time.Duration { c.looks++; return c.now }
	o.SlowRatio, o.SlowAfter, o.SlowMinimumCalls, o.Window = 0.5, 10*time.Millisecond, 2, 10*time.Second
	c.Breaker = mustNew(t, o)
	c.call(crowd, 0)
	return c
}

// call makes calls, one after the other, which take so long each.
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
			t.Errorf("%d looks at the clock for 500 calls", c.looks)
		}
	})
}

// A quick call after a pause is no slow one, however long the pause.
func TestPauseOfACrowdIsNotSlow(t *testing.T) {
	eachCrowd(t, func(t *testing.T, c *crowded) {
		for range 5 {
			c.now += 50 * time.Millisecond
			c.call(1, time.Microsecond)
		}
		if n := c.Counts().Slow; n != 0 {
			t.Errorf("%d quick calls are slow", n)
		}
	})
}

// One slow call escapes the crowd; for a whole window then none does.
func TestSlownessIsFoundInACrowd(t *testing.T) {
	eachCrowd(t, func(t *testing.T, c *crowded) {
		c.call(1, 10*time.Millisecond)
		if n := c.Counts().Slow; n != 0 {
			t.Errorf("%d slow calls, and the first is not known to be one", n)
		}
		c.call(20, 10*time.Millisecond)
		if n := c.Counts().Slow; n != 20 {
			t.Errorf("%d of 20 slow calls are counted", n)
		}
		c.call(1, 10*time.Millisecond-1)
		if n := c.Counts().Slow; n != 20 {
			t.Error("one that was not is counted as slow")
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
		t.Errorf("%d looks at the clock for 10 calls", c.looks)
	}
}

// Who gives up in a crowd counts as what is known of the call: nothing.
func TestGivingUpInACrowd(t *testing.T) {
	eachCrowd(t, func(t *testing.T, c *crowded) {
		before := c.Counts()
		for i := range 3 {
			call, _ := c.Begin()
			c.now += time.Second
			call.Cancel()
			if got := c.Counts(); got.Slow != i || got.Calls != before.Calls+i {
				t.Errorf("after %d: %+v", i+1, got)
			}
		}
	})
}

// Whatever comes after a crowd, every call counts once, no quick one as slow,
// and for a whole window after a slow one that escaped no other does.
func TestNoSecondSlowCallEscapesACrowd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const window, slowAfter = 100 * time.Second, 10 * time.Millisecond // nothing leaves that window here
		var clock clock
		clock.pass(rapid.SampledFrom([]time.Duration{0, 1, time.Hour}).Draw(t, "began"))
		o := Options{MinimumCalls: math.MaxInt32, Window: window, SlowAfter: slowAfter, Clock: clock.read}
		if rapid.Bool().Draw(t, "by calls") {
			o.WindowCalls, o.MinimumCalls = 5000, 5000
		}
		b, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		want, exactUntil := Counts{}, time.Duration(0)
		call := func(takes time.Duration, failed bool) {
			began := clock.read()
			call, _ := b.Begin()
			clock.pass(takes)
			call.end(failed)
			got := b.Counts()
			want.Calls, want.Failures = want.Calls+1, want.Failures+one(failed)
			switch escaped := takes >= slowAfter && got.Slow == want.Slow; {
			case escaped && began < exactUntil:
				t.Fatalf("one that took %v escaped at %v", takes, began)
			case escaped:
				exactUntil = clock.read() + window
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
		for range rapid.IntRange(1, 150).Draw(t, "calls") {
			clock.pass(rapid.SampledFrom([]time.Duration{0, 1, slowAfter / sightings, slowAfter - 1, slowAfter, 300 * time.Millisecond}).Draw(t, "pause"))
			takes := rapid.SampledFrom([]time.Duration{0, 1, slowAfter / 2, slowAfter - 1, slowAfter, 4 * slowAfter}).Draw(t, "takes")
			call(takes, rapid.IntRange(0, 5).Draw(t, "fails") == 5)
		}
	})
}

// A call is not taken to begin long before it did, which would have all timed.
func TestCallsOfACrowdBeginWhereTheLastEnded(t *testing.T) {
	eachCrowd(t, func(t *testing.T, c *crowded) {
		c.call(1, 5*time.Millisecond)
		c.call(1, 6*time.Millisecond)
		c.looks = 0
		c.call(1, 0)
		if c.looks != 1 {
			t.Errorf("%d looks at the clock", c.looks)
		}
	})
}

// A call that began before a Reset counts in none of what comes after.
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
