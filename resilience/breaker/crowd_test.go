package breaker

import (
	"testing"
	"time"
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
