package cas

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// The clock of a server runs at another rate, and calls and answers take any time: the time
// that a node computes is never before that of the server, and ahead of it by a bound.
func TestServerClockIsAnUpperBound(t *testing.T) {
	for _, rate := range []float64{-0.001, -0.0005, 0, 0.0005, 0.001} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			server := func() time.Time {
				since := time.Since(begun)
				return time.Unix(1e9, 0).Add(since + time.Duration(rate*float64(since))).Truncate(resolution)
			}
			random, told := rand.New(rand.NewPCG(1, 2)), 0
			wait := func(longest time.Duration) { time.Sleep(time.Duration(random.Int64N(int64(longest)))) }
			var c serverClock
			for range 10_000 {
				sent := time.Now()
				wait(9 * time.Millisecond)
				at := server()
				wait(9 * time.Millisecond)
				c.learn(sent, time.Now(), at)
				wait(time.Millisecond)
				now, ok := c.now()
				if !ok {
					continue
				}
				told++
				if ahead := now.Sub(server()); ahead < 0 || ahead > 10*time.Millisecond {
					t.Fatalf("at a rate of 1%+v the clock is ahead by %v", rate, ahead)
				}
			}
			if told < 5000 {
				t.Errorf("the clock told the time %d times", told)
			}
			time.Sleep(maxAge)
			if _, ok := c.now(); ok {
				t.Error("an old answer is used")
			}
		})
	}
}

// Of several samples the clock keeps the one with the least bound, unless a later answer
// shows that the server's clock was set.
func TestServerClockKeepsTheLeastBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c serverClock
		offset := time.Hour
		exchange := func(there, back time.Duration) {
			sent := time.Now()
			time.Sleep(there)
			server := time.Now().Add(offset)
			time.Sleep(back)
			c.learn(sent, time.Now(), server)
		}
		for i, step := range []struct {
			there, back, set time.Duration
			ahead            time.Duration // of the computed time
		}{
			{there: 2 * time.Millisecond, ahead: 2 * time.Millisecond},
			{there: time.Millisecond, back: 3 * time.Millisecond, ahead: time.Millisecond},
			{there: 5 * time.Millisecond, ahead: time.Millisecond}, // a slow call is no better sample
			{there: time.Millisecond, back: time.Millisecond, set: time.Minute, ahead: time.Millisecond},
			{there: 2 * time.Millisecond, set: -time.Hour, ahead: 2 * time.Millisecond},
		} {
			offset += step.set
			exchange(step.there, step.back)
			now, ok := c.now()
			if ahead := now.Sub(time.Now().Add(offset)); !ok || ahead < step.ahead || ahead > step.ahead+20*time.Microsecond {
				t.Errorf("after call %d the clock is ahead by %v: %v", i, ahead, ok)
			}
		}
		c.sample.wall = c.sample.wall.Add(-time.Second) // this node's clock was set, or the node suspended
		if _, ok := c.now(); ok {
			t.Error("a sample from before the node's clock was set is used")
		}
		exchange(time.Millisecond, time.Millisecond)
		if _, ok := c.now(); !ok {
			t.Error("the next answer is not used")
		}
		c.forget()
		if _, ok := c.now(); ok {
			t.Error("a time is told after a failure")
		}
	})
}

func TestServerWithoutAClock(t *testing.T) {
	var c serverClock
	if _, ok := c.now(); ok {
		t.Error("a time is told before the first answer")
	}
	c.learn(time.Now(), time.Now(), time.Time{})
	if now, ok := c.now(); !ok || !now.IsZero() {
		t.Errorf("%v %v", now, ok)
	}
}
