package breaker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
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

// clock is a clock that a test sets.
type clock struct{ now atomic.Int64 }

func (c *clock) read() time.Time        { return time.Unix(0, c.now.Load()) }
func (c *clock) elapsed() time.Duration { return time.Duration(c.now.Load()) }
func (c *clock) pass(d time.Duration)   { c.now.Add(int64(d)) }

// step is one call and the state after it. The call begins after a pause and, if it is
// let through, takes a while and ends.
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
		{"fewSlowCallsOpenNothing", Options{SlowRatio: 0.01, SlowAfter: s, SlowMinimumCalls: 2, MinimumSlow: 3, Window: 10 * s}, [][]step{{
			{7 * s, 's', s, Closed}, {2 * s, 's', s, Closed}, {0, 's', 0, Closed}, {0, 's', s, Open},
		}}},
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
		call.Ignore()
	}
}

// A ratio of n in a hundred opens at exactly n failures, whatever its rounding error in
// binary.
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
		call.Ignore()
		if d := call.Elapsed(); d != 0 {
			t.Error(d)
		}
	}
	b.Reset()
	b.Reset() // the state is closed already, so this is no change
	if c := b.Counts(); c != (Counts{}) || b.State() != Closed {
		t.Errorf("%v after Reset, with %+v", b.State(), c)
	}
	if want := []string{"forced open caller", "disabled caller", "closed caller"}; !slices.Equal(changes, want) {
		t.Errorf("changes %q, want %q", changes, want)
	}
}

func TestAChangeTellsTheCallsThatLedToIt(t *testing.T) {
	var changes []Change
	b := mustNew(t, Options{MinimumCalls: 4, OnChange: func(c Change) { changes = append(changes, c) }})
	for _, failed := range []bool{false, true, false, true} {
		call, _ := b.Begin()
		call.end(failed)
	}
	b.Reset()
	want := []Change{
		{From: Closed, To: Open, Reason: ReasonFailures, OpenFor: time.Second, Counts: Counts{Calls: 4, Failures: 2}},
		{From: Open, To: Closed, Reason: ReasonCaller},
	}
	if !slices.Equal(changes, want) {
		t.Errorf("%+v, want %+v", changes, want)
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

// A call that began before a change counts nowhere after it.
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

// The greatest durations do not overflow.
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
	b := mustNew(t, Options{ConsecutiveFailures: 2, Classify: func(err error) Outcome {
		if errors.Is(err, theirs) {
			return Failure
		}
		return Success
	}})
	for _, err := range []error{mine, mine, mine, nil, theirs, mine, theirs} {
		if got := b.Do(t.Context(), func(context.Context) error { return err }); !errors.Is(got, err) {
			t.Errorf("got %v, want %v", got, err)
		}
	}
	if b.State() != Closed {
		t.Fatal(b.State())
	}
	func() {
		defer func() { _ = recover() }()
		_ = b.Do(t.Context(), func(context.Context) error { panic("a failure") })
	}()
	var refused *RefusedError
	if err := b.Do(t.Context(), func(context.Context) error { t.Error("called"); return nil }); !errors.As(err, &refused) || refused.State != Open || !strings.Contains(err.Error(), "open") {
		t.Errorf("got %v", err)
	}
}

// Without a Clock, the breaker reads the monotonic clock.
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
	stopped := NewCoarseClock(0)
	stopped.Stop()
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
		"MinimumSlow: is -1":  {MinimumSlow: -1},
		"MinimumSlow: is 3":   {WindowCalls: 2, MinimumSlow: 3},
		"Window":              {Window: 9},
		"OpenFor: is":         {OpenFor: -1},
		"CoarseClock: is set": {CoarseClock: stopped, Clock: time.Now},
		"CoarseClock: is a z": {CoarseClock: &CoarseClock{}},
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
