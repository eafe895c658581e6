package breaker

import (
	"sync"
	"testing"
	"time"
)

// The last calls are counted correctly once all have ended, however many end at once.
func TestConcurrentResultsFillARing(t *testing.T) {
	b := mustNew(t, Options{FailureRatio: 1, WindowCalls: 64})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 5000 {
				call, _ := b.Begin()
				if (i+j)%3 == 0 {
					call.Failure()
				} else {
					call.Success()
				}
			}
		})
	}
	wg.Wait()
	r := b.window.current.Load().run.ring
	failures := 0
	for i := range r.places {
		failures += int(r.places[i].Load() & failedBit)
	}
	if c := b.Counts(); c.Calls != 64 || c.Failures != failures || failures == 0 {
		t.Errorf("%+v, and %d in the ring", c, failures)
	}
	for range 64 {
		call, _ := b.Begin()
		call.Success()
	}
	if c := b.Counts(); c != (Counts{Calls: 64}) {
		t.Errorf("%+v after as many successes", c)
	}
}

// Every result counts once, even while the window advances.
func TestConcurrentResultsCountOnce(t *testing.T) {
	var clock clock
	b := mustNew(t, Options{MinimumCalls: 1 << 30, Window: time.Hour, Clock: clock.read})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 10_000 {
				clock.pass(time.Millisecond) // 80 s in all
				call, _ := b.Begin()
				if (i+j)%4 == 0 {
					call.Failure()
				} else {
					call.Success()
				}
			}
		})
	}
	wg.Wait()
	if c := b.Counts(); c != (Counts{Calls: 80_000, Failures: 20_000}) {
		t.Errorf("counted %+v", c)
	}
}

// In a crowded part few calls read the clock, and calls still leave the window.
func TestCrowdLeavesTheWindow(t *testing.T) {
	var looks int
	var now time.Duration
	b := mustNew(t, Options{Window: 10 * time.Second, Clock: func() time.Time { looks++; return time.Unix(0, int64(now)) }})
	succeed := func(n int) {
		for range n {
			call, _ := b.Begin()
			call.Success()
		}
	}
	succeed(17_000)
	if looks > 1+1000+16_000/16 {
		t.Errorf("%d reads of the clock", looks)
	}
	now = 5 * time.Second
	succeed(1015) // fifteen of them count in the tenth before
	now = 10*time.Second - 1
	if c := b.Counts(); c.Calls != 18_015 {
		t.Errorf("%+v", c)
	}
	now = 10 * time.Second
	if c := b.Counts(); c.Calls < 1000 || c.Calls > 1015 {
		t.Errorf("%+v after the first tenth has left", c)
	}
	call, _ := b.Begin()
	call.Failure() // Failure reads the clock, however crowded the part is
	now = 15 * time.Second
	if c := b.Counts(); c != (Counts{Calls: 1, Failures: 1}) {
		t.Errorf("%+v after the crowd has left", c)
	}
}

// Under contention the changes of state are reported in order, each from the state to
// which the last one led.
func TestChangesFormAChain(t *testing.T) {
	var clock clock
	at, changes := Closed, 0
	b := mustNew(t, Options{ConsecutiveFailures: 3, OpenFor: time.Millisecond, Clock: clock.read, OnChange: func(c Change) {
		if c.From != at || (c.To == Open) != (c.OpenFor > 0) {
			t.Errorf("%+v after %v", c, at)
		}
		at = c.To
		changes++
	}})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 5000 {
				clock.pass(10 * time.Microsecond)
				call, _ := b.Begin()
				if (i+j)%5 == 0 {
					call.Success()
				} else {
					call.Failure()
				}
			}
		})
	}
	wg.Wait()
	if at != b.State() || changes < 3 {
		t.Errorf("%d changes to %v, and the state is %v", changes, at, b.State())
	}
}
