package breaker

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func mustNew(tb testing.TB, o Options) *Breaker {
	tb.Helper()
	b, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// clock is a time that a test sets.
type clock struct{ now atomic.Int64 }

func (c *clock) read() time.Duration  { return time.Duration(c.now.Load()) }
func (c *clock) pass(d time.Duration) { c.now.Add(int64(d)) }

// step is one call, and the state after it. The call begins after a pause, if
// it is let through, takes a while and ends.
type step struct {
	after time.Duration
	ends  byte // 's' succeeds, 'f' fails, 'c' is canceled, 'r' is refused
	takes time.Duration
	want  State
}

func take(ends string, want State) (steps []step) {
	for i := range ends {
		steps = append(steps, step{ends: ends[i], want: Closed})
	}
	steps[len(steps)-1].want = want
	return steps
}

func TestSteps(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name  string
		o     Options
		steps [][]step
	}{
		{"failuresInARowOpen", Options{ConsecutiveFailures: 3}, [][]step{take("ffsfff", Open)}},
		{"failuresInARowNeedNoHurry", Options{ConsecutiveFailures: 3}, [][]step{{{0, 'f', 0, Closed}, {3600 * s, 'f', 0, Closed}, {3600 * s, 'f', 0, Open}}}},
		{"ratioWaitsForItsMinimum", Options{MinimumCalls: 4}, [][]step{take("fff", Closed), take("f", Open)}},
		{"ratioIsReachedExactly", Options{FailureRatio: 0.25, MinimumCalls: 4}, [][]step{take("sssf", Open)}},
		{"successNeverOpens", Options{MinimumCalls: 4}, [][]step{take("fffs", Closed), take("f", Open)}},
		{"oldFailuresLeaveTheWindow", Options{MinimumCalls: 2, Window: 10 * s}, [][]step{{{0, 'f', 0, Closed}, {10 * s, 'f', 0, Closed}, {9 * s, 'f', 0, Open}}}},
		{"callsAtASeamAreOfTheNextTenth", Options{MinimumCalls: 2, Window: 10 * s}, [][]step{{{s, 'f', 0, Closed}, {10*s - 1, 'f', 0, Open}}}},
		{"lastCallsCountHoweverOld", Options{WindowCalls: 4, MinimumCalls: 4}, [][]step{{
			{0, 'f', 0, Closed}, {3600 * s, 's', 0, Closed}, {3600 * s, 's', 0, Closed}, {3600 * s, 'f', 0, Open},
		}}},
		{"callsLeaveAWindowOfCalls", Options{WindowCalls: 4}, [][]step{take("fsssf", Closed), take("f", Open)}},
		{"windowOfCallsWaitsForItsMinimum", Options{WindowCalls: 4, MinimumCalls: 3}, [][]step{take("ff", Closed), take("f", Open)}},
		{"slowCallsOpenAWholeWindowOfCalls", Options{WindowCalls: 4, SlowRatio: 0.5, SlowAfter: s, SlowMinimumCalls: 2}, [][]step{{
			{0, 's', s, Closed}, {0, 's', s, Closed}, {0, 's', s, Closed}, {0, 's', s, Open},
		}}},
		{"closingForgetsTheLastCalls", Options{WindowCalls: 2, OpenFor: s}, [][]step{{
			{0, 'f', 0, Closed}, {0, 'f', 0, Open}, {s, 's', 0, Closed}, {0, 'f', 0, Closed}, {0, 's', 0, Closed}, {0, 'f', 0, Open},
		}}},
		{"aGoodWindowOfCallsForgetsGrowth", Options{WindowCalls: 2, ConsecutiveFailures: 1, OpenFor: s, Growth: 2}, [][]step{{
			{0, 'f', 0, Open}, {s, 's', 0, Closed}, {3600 * s, 'f', 0, Open}, {2*s - 1, 'r', 0, Open}, {1, 's', 0, Closed},
			{0, 's', 0, Closed}, {0, 's', 0, Closed}, {0, 'f', 0, Open}, {s, 's', 0, Closed},
		}}},
		{"slowCallsOpenAfterAWindow", Options{SlowRatio: 0.5, SlowAfter: s, SlowMinimumCalls: 2, Window: 10 * s}, [][]step{{
			{7 * s, 's', s, Closed}, {0, 's', s, Closed}, {0, 's', s, Open},
		}}},
		{"almostSlowIsNotSlow", Options{SlowRatio: 0.5, SlowAfter: s, SlowMinimumCalls: 2}, [][]step{{{9 * s, 's', s - 1, Closed}, {s, 's', s - 1, Closed}}}},
		{"oneSlowCallOpensNothing", Options{SlowRatio: 0.5, SlowAfter: s, MinimumCalls: 1}, [][]step{{{9 * s, 's', s, Closed}}}},
		{"canceledCallsDoNotCount", Options{ConsecutiveFailures: 2}, [][]step{take("fcccf", Open)}},
		{"canceledSlowCallsAreSlow", Options{SlowRatio: 0.5, SlowAfter: s, SlowMinimumCalls: 2}, [][]step{{{8 * s, 'c', s, Closed}, {0, 'c', s, Open}}}},
		{"canceledSlowCallsWithoutARatioDoNotCount", Options{MinimumCalls: 2, SlowAfter: s}, [][]step{{{0, 'f', 0, Closed}, {0, 'c', s, Closed}, {0, 'c', s, Closed}, {0, 'c', s, Closed}, {0, 'f', 0, Open}}}},
		{"canceledSlowCallsEndNoRow", Options{ConsecutiveFailures: 2, SlowRatio: 1, SlowAfter: s}, [][]step{{{0, 'f', 0, Closed}, {0, 'c', s, Closed}, {0, 'f', 0, Open}}}},
		{"openRefusesUntilItsTime", Options{ConsecutiveFailures: 1, OpenFor: s}, [][]step{{{0, 'f', 0, Open}, {s - 1, 'r', 0, Open}, {1, 's', 0, Closed}}}},
		{"failedProbeOpensForLonger", Options{ConsecutiveFailures: 1, OpenFor: s, Growth: 2, MaxOpenFor: 3 * s}, [][]step{{
			{0, 'f', 0, Open}, {s, 'f', 0, Open}, {2*s - 1, 'r', 0, Open}, {1, 'f', 0, Open}, {3*s - 1, 'r', 0, Open}, {1, 's', 0, Closed},
		}}},
		{"openingSoonAgainIsForLonger", Options{ConsecutiveFailures: 1, OpenFor: s, Growth: 2, Window: 10 * s}, [][]step{{
			{0, 'f', 0, Open}, {s, 's', 0, Closed}, {9 * s, 'f', 0, Open}, {2*s - 1, 'r', 0, Open}, {1, 's', 0, Closed},
		}}},
		{"aGoodWindowForgetsGrowth", Options{ConsecutiveFailures: 1, OpenFor: s, Growth: 2, Window: 10 * s}, [][]step{{
			{0, 'f', 0, Open}, {s, 'f', 0, Open}, {2 * s, 's', 0, Closed}, {10 * s, 'f', 0, Open}, {s, 's', 0, Closed},
		}}},
		{"allProbesMustSucceed", Options{ConsecutiveFailures: 1, OpenFor: s, Probes: 3}, [][]step{{
			{0, 'f', 0, Open}, {s, 's', 0, HalfOpen}, {0, 's', 0, HalfOpen}, {0, 's', 0, Closed},
		}}},
		{"oneFailedProbeIsEnough", Options{ConsecutiveFailures: 1, OpenFor: s, Probes: 3}, [][]step{{
			{0, 'f', 0, Open}, {s, 's', 0, HalfOpen}, {0, 'f', 0, Open}, {s - 1, 'r', 0, Open},
		}}},
		{"canceledProbeMakesRoom", Options{ConsecutiveFailures: 1, OpenFor: s}, [][]step{{
			{0, 'f', 0, Open}, {s, 'c', 0, HalfOpen}, {0, 's', 0, Closed},
		}}},
		{"slowProbeFails", Options{ConsecutiveFailures: 1, OpenFor: s, SlowRatio: 1, SlowAfter: s}, [][]step{{
			{0, 'f', 0, Open}, {s, 's', s, Open}, {s, 'c', s, Open}, {s, 's', s - 1, Closed},
		}}},
		{"canceledProbeThatIsSlowClosesNothing", Options{ConsecutiveFailures: 1, OpenFor: s, SlowAfter: s}, [][]step{{
			{0, 'f', 0, Open}, {s, 'c', s, HalfOpen}, {0, 'c', 2 * s, HalfOpen}, {0, 's', 0, Closed},
		}}},
		{"slownessThatOpensNothingFailsNoProbe", Options{ConsecutiveFailures: 1, OpenFor: s, SlowAfter: s}, [][]step{{
			{0, 'f', 0, Open}, {s, 's', s, Closed},
		}}},
		{"closingForgetsWhatWasCounted", Options{MinimumCalls: 2, OpenFor: s}, [][]step{{
			{0, 'f', 0, Closed}, {0, 'f', 0, Open}, {s, 's', 0, Closed}, {0, 'f', 0, Closed}, {0, 'f', 0, Open},
		}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var clock clock
			c.o.Clock = clock.read
			b := mustNew(t, c.o)
			for i, step := range slices.Concat(c.steps...) {
				walk(t, b, &clock, step)
				if got := b.State(); got != step.want {
					t.Fatalf("step %d: %v, want %v", i, got, step.want)
				}
			}
		})
	}
}

func walk(t *testing.T, b *Breaker, clock *clock, s step) {
	t.Helper()
	clock.pass(s.after)
	call, ok := b.Begin()
	if ok != (s.ends != 'r') {
		t.Fatalf("let through: %v, in state %v", ok, b.State())
	}
	clock.pass(s.takes)
	switch s.ends {
	case 's':
		call.Success()
	case 'f':
		call.Failure()
	case 'c':
		call.Cancel()
	}
}

// A ratio of so many in a hundred opens by exactly so many, whatever its error
// in binary.
func TestRatiosAreExactInDecimal(t *testing.T) {
	for percent := 1; percent <= 100; percent++ {
		for _, failures := range []int{percent - 1, percent} {
			b := mustNew(t, Options{FailureRatio: float64(percent) / 100, MinimumCalls: 100, Clock: new(clock).read})
			for i := range 100 {
				call, _ := b.Begin()
				call.end(i >= 100-failures)
			}
			if opened := b.State() == Open; opened != (failures == percent) {
				t.Errorf("%d of 100 failed at a ratio of %v: opened %v", failures, b.options.FailureRatio, opened)
			}
		}
	}
}

func TestForcedStates(t *testing.T) {
	var changes []string
	b := mustNew(t, Options{ConsecutiveFailures: 1, OnChange: func(c Change) { changes = append(changes, fmt.Sprintf("%v %v", c.To, c.Reason)) }})
	b.ForceOpen()
	if _, ok := b.Begin(); ok || b.State() != ForcedOpen || b.RetryAfter() != time.Minute {
		t.Error("forced open, and lets through", b.RetryAfter())
	}
	if _, ok := b.BeginProbe(); ok {
		t.Error("forced open, and lets a probe through")
	}
	b.Disable()
	for range 10 {
		call, ok := b.Begin()
		if !ok {
			t.Fatal("disabled, and refuses")
		}
		call.Failure()
		call.Cancel()
		if d := call.Elapsed(); d != 0 {
			t.Error(d)
		}
	}
	b.Reset()
	b.Reset() // is no change
	if c := b.Counts(); c != (Counts{}) || b.State() != Closed {
		t.Errorf("%v after Reset, with %+v", b.State(), c)
	}
	if want := []string{"forced open caller", "disabled caller", "closed caller"}; !slices.Equal(changes, want) {
		t.Errorf("told %q, want %q", changes, want)
	}
}

func TestResetForgetsGrowth(t *testing.T) {
	b := mustNew(t, Options{ConsecutiveFailures: 1, OpenFor: time.Second, Growth: 2, Clock: new(clock).read})
	for range 3 {
		call, _ := b.Begin()
		call.Failure()
		if d := b.RetryAfter(); d != time.Second {
			t.Errorf("open for %v", d)
		}
		b.Reset()
	}
}

// Whatever a call meets that began before a change, it counts nowhere after.
func TestLateResultsDoNotCount(t *testing.T) {
	var clock clock
	b := mustNew(t, Options{ConsecutiveFailures: 1, OpenFor: time.Second, Clock: clock.read})
	early, _ := b.Begin()
	fatal, _ := b.Begin()
	fatal.Failure()
	clock.pass(time.Second)
	probe, _ := b.Begin()
	early.Success()
	if b.State() != HalfOpen {
		t.Fatalf("a success from before the failure ended the probing: %v", b.State())
	}
	probe.Success()
	early.Failure()
	probe.Failure()
	if b.State() != Closed || b.Counts() != (Counts{}) {
		t.Errorf("%v with %+v", b.State(), b.Counts())
	}
}

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

// Probes whose callers forgot to end them do not close the way for ever.
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
	lost.Cancel() // its place is another's by now
	if _, ok := b.Begin(); ok {
		t.Error("a second probe beside the one in place of the lost")
	}
	probe.Success()
	lost.Failure()
	if b.State() != Closed {
		t.Error(b.State())
	}
}

// A probe is not taken for lost before it has had as long as the breaker was
// open, however long ago another began.
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
			t.Errorf("at %v: let through %v, want %v", clock.read(), ok, step.want)
		}
	}
}

// A dependency that needs longer than the breaker is open closes it again, and
// one that fails late opens it.
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
		for i := range 4 * c.probes { // as many each second, and none has ended
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

// The longest times there are do not run over.
func TestOpenForEver(t *testing.T) {
	const most = time.Duration(math.MaxInt64)
	for _, o := range []Options{{OpenFor: most}, {OpenFor: most, Growth: 2}, {Growth: 1e300, MaxOpenFor: most}} {
		clock := clock{}
		clock.pass(time.Hour)
		o.ConsecutiveFailures, o.Clock = 1, clock.read
		b := mustNew(t, o)
		call, _ := b.Begin()
		call.Failure()
		if o.OpenFor == 0 {
			clock.pass(time.Second)
			probe, _ := b.Begin()
			probe.Failure()
		}
		clock.pass(1 << 62)
		if _, ok := b.Begin(); ok || b.State() != Open || b.RetryAfter() <= 0 {
			t.Errorf("%+v: let through %v, %v for %v", o, ok, b.State(), b.RetryAfter())
		}
	}
}

func TestProbesApartKeepsCallsFromProbing(t *testing.T) {
	var clock clock
	b := mustNew(t, Options{ConsecutiveFailures: 1, OpenFor: time.Second, ProbesApart: true, Clock: clock.read})
	call, ok := b.BeginProbe() // closed, it is a call like any other
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

func TestRetryAfterCountsDown(t *testing.T) {
	var clock clock
	b := mustNew(t, Options{ConsecutiveFailures: 1, OpenFor: time.Second, Clock: clock.read})
	if d := b.RetryAfter(); d != 0 {
		t.Error("closed:", d)
	}
	call, _ := b.Begin()
	call.Failure()
	for _, want := range []time.Duration{time.Second, time.Second / 2, 0, 0} {
		if got := b.RetryAfter(); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
		clock.pass(time.Second / 2)
	}
}

func TestDo(t *testing.T) {
	mine, theirs := errors.New("mine"), errors.New("theirs")
	b := mustNew(t, Options{ConsecutiveFailures: 2, Failed: func(err error) bool { return errors.Is(err, theirs) }})
	for _, err := range []error{mine, mine, mine, nil, theirs, mine, theirs} {
		if got := b.Do(func() error { return err }); !errors.Is(got, err) {
			t.Errorf("got %v, want %v", got, err)
		}
	}
	if b.State() != Closed {
		t.Fatal(b.State())
	}
	func() {
		defer func() { _ = recover() }()
		_ = b.Do(func() error { panic("a failure") })
	}()
	var refused *RefusedError
	if err := b.Do(func() error { t.Error("called"); return nil }); !errors.As(err, &refused) || refused.State != Open || !strings.Contains(err.Error(), "open") {
		t.Errorf("got %v", err)
	}
}

// Time is the process's own when nobody brings another.
func TestOwnClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, Options{ConsecutiveFailures: 1, OpenFor: time.Second, SlowAfter: time.Millisecond})
		time.Sleep(time.Minute)
		call, _ := b.Begin()
		time.Sleep(3 * time.Millisecond)
		if d := call.Elapsed(); d != 3*time.Millisecond {
			t.Errorf("elapsed %v", d)
		}
		call.Failure()
		time.Sleep(b.RetryAfter() - 1)
		if _, ok := b.Begin(); ok {
			t.Error("a nanosecond early")
		}
		time.Sleep(time.Nanosecond)
		if _, ok := b.Begin(); !ok {
			t.Error("on time, and refused")
		}
	})
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	for name, o := range map[string]Options{
		"ConsecutiveFailures": {ConsecutiveFailures: -1},
		"FailureRatio":        {FailureRatio: 1.1},
		"MinimumCalls":        {MinimumCalls: -1},
		"SlowRatio":           {SlowRatio: -0.1},
		"SlowAfter":           {SlowRatio: 0.1},
		"SlowMinimumCalls":    {SlowMinimumCalls: -1},
		"WindowCalls: is -1":  {WindowCalls: -1},
		"WindowCalls: is 100": {WindowCalls: 1_000_001},
		"MinimumCalls: is 3":  {WindowCalls: 2, MinimumCalls: 3},
		"SlowMinimumCalls: i": {WindowCalls: 2, SlowMinimumCalls: 3},
		"Window":              {Window: 9},
		"OpenFor: is":         {OpenFor: -1},
		"Growth":              {Growth: 0.5},
		"MaxOpenFor":          {OpenFor: 2, MaxOpenFor: 1},
		"Probes":              {Probes: -1},
	} {
		if b, err := New(o); err == nil || b != nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want an error that names it", name, err)
		}
	}
}

func TestClosedBreakerAllocatesNothing(t *testing.T) {
	for _, calls := range []int{0, 100} {
		b := mustNew(t, Options{FailureRatio: 0.5, SlowRatio: 0.01, SlowAfter: time.Second, Window: time.Hour, WindowCalls: calls})
		if n := testing.AllocsPerRun(1000, func() {
			call, _ := b.Begin()
			call.Success()
		}); n != 0 {
			t.Errorf("%v allocations a call", n)
		}
	}
}

// The last calls are counted right once all are in, however many come at once.
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

// Every result counts once, also while the window moves on.
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

// In a crowd the clock is looked at rarely, and calls still leave the window.
func TestCrowdLeavesTheWindow(t *testing.T) {
	var looks int
	var now time.Duration
	b := mustNew(t, Options{Window: 10 * time.Second, Clock: func() time.Duration { looks++; return now }})
	succeed := func(n int) {
		for range n {
			call, _ := b.Begin()
			call.Success()
		}
	}
	succeed(17_000)
	if looks > 1+1000+16_000/16 {
		t.Errorf("%d looks at the clock", looks)
	}
	now = 5 * time.Second
	succeed(1015) // fifteen of them count before
	now = 10*time.Second - 1
	if c := b.Counts(); c.Calls != 18_015 {
		t.Errorf("%+v", c)
	}
	now = 10 * time.Second
	if c := b.Counts(); c.Calls < 1000 || c.Calls > 1015 {
		t.Errorf("%+v after the first tenth has left", c)
	}
	call, _ := b.Begin()
	call.Failure() // looks at the clock, whatever the crowd
	now = 15 * time.Second
	if c := b.Counts(); c != (Counts{Calls: 1, Failures: 1}) {
		t.Errorf("%+v after the crowd has left", c)
	}
}

// Under contention the changes of state are told in order, each from where the
// last one led.
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
