package breaker

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestProbesAreBounded(t *testing.T) {
	var clock clock
	b := mustNew(t, Options{ConsecutiveFailures: 1, OpenFor: time.Second, Probes: 3, Clock: clock.read})
	call, _ := b.Begin()
	call.Failure()
	clock.pass(time.Second)
	var through atomic.Int64
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if _, ok := b.Begin(); ok {
				through.Add(1)
			}
		})
	}
	wg.Wait()
	if n := through.Load(); n != 3 {
		t.Errorf("%d probes were let through, want 3", n)
	}
}

// Probes that their callers never end do not block further probes for ever.
func TestLostProbesAreReplaced(t *testing.T) {
	var clock clock
	b := mustNew(t, Options{ConsecutiveFailures: 1, OpenFor: time.Second, Clock: clock.read})
	call, _ := b.Begin()
	call.Failure()
	clock.pass(time.Second)
	lost, _ := b.Begin()
	clock.pass(time.Second - 1)
	if _, ok := b.Begin(); ok {
		t.Fatal("a second probe beside the first")
	}
	clock.pass(1)
	probe, ok := b.Begin()
	if !ok {
		t.Fatal("no probe in place of the lost one")
	}
	lost.Ignore() // its place has been given to the new probe
	if _, ok := b.Begin(); ok {
		t.Error("a second probe beside the one in place of the lost")
	}
	probe.Success()
	lost.Failure()
	if b.State() != Closed {
		t.Error(b.State())
	}
}

// A probe does not count as lost before it has run as long as the breaker was open,
// however long ago another probe began.
func TestProbesAreReplacedAfterTheirOwnTime(t *testing.T) {
	var clock clock
	b := mustNew(t, Options{ConsecutiveFailures: 1, OpenFor: time.Second, Probes: 2, Clock: clock.read})
	call, _ := b.Begin()
	call.Failure()
	for _, step := range []struct {
		after time.Duration
		want  bool
	}{{time.Second, true}, {time.Second - 1, true}, {1, false}, {time.Second - 2, false}, {1, true}, {0, true}, {0, false}} {
		clock.pass(step.after)
		if _, ok := b.Begin(); ok != step.want {
			t.Errorf("at %v: let through %v, want %v", clock.elapsed(), ok, step.want)
		}
	}
}

// A dependency whose calls take longer than the open period closes the breaker again if
// they succeed, and opens it if they fail late.
func TestProbesThatTakeLongCount(t *testing.T) {
	for _, c := range []struct {
		fails  bool
		probes int
		want   []State
	}{{false, 1, []State{Closed}}, {true, 1, []State{Open}}, {false, 2, []State{HalfOpen, Closed}}} {
		var clock clock
		b := mustNew(t, Options{ConsecutiveFailures: 1, OpenFor: time.Second, Probes: c.probes, Clock: clock.read})
		call, _ := b.Begin()
		call.Failure()
		clock.pass(time.Second)
		var calls []Call
		for i := range 4 * c.probes { // each second admits the same number of probes, and none has ended
			if i > 0 && i%c.probes == 0 {
				clock.pass(time.Second)
			}
			call, ok := b.Begin()
			if !ok {
				t.Fatalf("refused after %d probes", len(calls))
			}
			calls = append(calls, call)
		}
		for i, want := range c.want {
			calls[i].end(c.fails)
			if b.State() != want {
				t.Errorf("%d of %d probes fail late: %v; it is %v, want %v", i+1, c.probes, c.fails, b.State(), want)
			}
		}
	}
}

func TestProbesApartKeepsCallsFromProbing(t *testing.T) {
	var clock clock
	b := mustNew(t, Options{ConsecutiveFailures: 1, OpenFor: time.Second, ProbesApart: true, Clock: clock.read})
	call, ok := b.BeginProbe() // in a closed breaker a probe is an ordinary call
	if !ok {
		t.Fatal("refused")
	}
	call.Failure()
	if _, ok := b.BeginProbe(); ok {
		t.Error("probes too early")
	}
	clock.pass(time.Hour)
	if _, ok := b.Begin(); ok || b.State() != Open {
		t.Error("an ordinary call was let through")
	}
	probe, ok := b.BeginProbe()
	if _, beside := b.Begin(); !ok || beside {
		t.Error("half-open: probe", ok, "ordinary call", beside)
	}
	probe.Success()
	if _, ok := b.Begin(); !ok {
		t.Error("closed, and refuses")
	}
}
