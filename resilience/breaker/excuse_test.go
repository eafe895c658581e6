package breaker

import (
	"testing"
	"time"
)

func TestExcusedCallsAreNotSlow(t *testing.T) {
	var clock clock
	var asked []time.Duration
	excused := true
	b := mustNew(t, Options{
		SlowRatio: 0.5, SlowAfter: time.Second, SlowMinimumCalls: 2, Window: 10 * time.Second, OpenFor: time.Second,
		Clock:  clock.read,
		Excuse: func(took time.Duration) bool { asked = append(asked, took); return excused },
	})
	call := func(takes time.Duration) {
		c, ok := b.Begin()
		if !ok {
			t.Fatalf("refused after %v", asked)
		}
		clock.pass(takes)
		c.Success()
	}
	clock.pass(11 * time.Second)
	call(time.Second - 1)
	call(time.Second)
	call(2 * time.Second)
	if c := b.Counts(); b.State() != Closed || c != (Counts{Calls: 3}) {
		t.Errorf("%v with %+v after excused calls", b.State(), c)
	}
	excused = false
	for range 3 {
		call(time.Second)
	}
	if b.State() != Open {
		t.Errorf("%v after slow calls without an excuse", b.State())
	}
	excused = true
	clock.pass(time.Second)
	call(time.Second)
	if b.State() != Open {
		t.Error("a slow probe was excused")
	}
	if len(asked) != 5 {
		t.Errorf("Excuse was called for %v, want the five slow calls", asked)
	}
}
