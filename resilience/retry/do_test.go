package retry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint/internal/property"
)

func mustNew(tb testing.TB, o Options) *Policy {
	tb.Helper()
	p, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// purse is a budget with a fixed number of retries.
type purse struct{ requests, left, returned int }

func (p *purse) Request() { p.requests++ }
func (p *purse) Refund()  { p.returned++; p.left++ }
func (p *purse) Retry() bool {
	if p.left == 0 {
		return false
	}
	p.left--
	return true
}

var errDown = errors.New("down")

// Each attempt is made exactly when it should be, and the result is that of the last
// attempt.
func TestAttempts(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for _, c := range []struct {
		name    string
		o       Options
		timeout time.Duration // timeout of the context; 0: none
		errs    []error       // of the attempts; the last again and again
		want    []time.Duration
		stop    Stop // reason of the last step
	}{
		{"successIsNotRepeated", Options{}, 0, []error{nil}, []time.Duration{0}, Continue},
		{"successEndsIt", Options{}, 0, []error{errDown, nil}, []time.Duration{0, 100 * ms}, Continue},
		{"threeUnlessSaid", Options{}, 0, []error{errDown}, []time.Duration{0, 100 * ms, 300 * ms}, StopAttempts},
		{"waitsDoubleToTheCap", Options{Attempts: 6, Base: s, Cap: 3 * s}, 0, []error{errDown}, []time.Duration{0, s, 3 * s, 6 * s, 9 * s, 12 * s}, StopAttempts},
		{"oneAttemptIsOne", Options{Attempts: 1}, 0, []error{errDown}, []time.Duration{0}, StopAttempts},
		{"permanentEndsIt", Options{}, 0, []error{errDown, Permanent(errDown)}, []time.Duration{0, 100 * ms}, StopNotRetryable},
		{"canceledEndsIt", Options{}, 0, []error{context.Canceled}, []time.Duration{0}, StopNotRetryable},
		{"timeoutOfOneAttemptDoesNot", Options{Attempts: 2}, 0, []error{context.DeadlineExceeded}, []time.Duration{0, 100 * ms}, StopAttempts},
		{"retryAfterIsAddedTo", Options{Attempts: 2}, 0, []error{After(errDown, s)}, []time.Duration{0, 1100 * ms}, StopAttempts},
		{"retryAfterMayPassTheCap", Options{Attempts: 2, Cap: s}, 0, []error{After(errDown, 30*s)}, []time.Duration{0, 30100 * ms}, StopAttempts},
		{"tooLongARetryAfterEndsIt", Options{MaxRetryAfter: s}, 0, []error{After(errDown, s+1)}, []time.Duration{0}, StopRetryAfter},
		{"theLongestRetryAfterIsWaitedFor", Options{Attempts: 2, MaxRetryAfter: s}, 0, []error{After(errDown, s)}, []time.Duration{0, 1100 * ms}, StopAttempts},
		{"retryAfterBelowZeroIsNone", Options{Attempts: 2}, 0, []error{After(errDown, -s)}, []time.Duration{0, 100 * ms}, StopAttempts},
		{"totalTimeEndsIt", Options{Attempts: 9, TotalTime: s}, 0, []error{errDown}, []time.Duration{0, 100 * ms, 300 * ms, 700 * ms}, StopDeadline},
		{"totalTimeIsReachedExactly", Options{Attempts: 9, TotalTime: 300 * ms}, 0, []error{errDown}, []time.Duration{0, 100 * ms, 300 * ms}, StopDeadline},
		{"deadlineEndsItAtOnce", Options{Attempts: 9}, 400 * ms, []error{errDown}, []time.Duration{0, 100 * ms, 300 * ms}, StopDeadline},
		{"noTimeLeftIsTooLittle", Options{}, 100 * ms, []error{errDown}, []time.Duration{0}, StopDeadline},
		{"aNanosecondIsEnough", Options{}, 100*ms + 1, []error{errDown}, []time.Duration{0, 100 * ms}, StopDeadline},
		{"retryAfterPastTheDeadlineEndsIt", Options{}, 10 * s, []error{After(errDown, 20*s)}, []time.Duration{0}, StopDeadline},
		{"budgetEndsItAtOnce", Options{Attempts: 9, Budget: &purse{left: 1}}, 0, []error{errDown}, []time.Duration{0, 100 * ms}, StopBudget},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, at, last := time.Now(), []time.Duration(nil), Step{}
				c.o.Jitter, c.o.Observe = None, func(s Step) { last = s }
				ctx := t.Context()
				if c.timeout > 0 {
					limited, cancel := context.WithTimeout(ctx, c.timeout)
					defer cancel()
					ctx = limited
				}
				v, err := Do(ctx, mustNew(t, c.o), func(context.Context) (int, error) {
					at = append(at, time.Since(start))
					return len(at), c.errs[min(len(at), len(c.errs))-1]
				})
				if want := c.errs[len(c.errs)-1]; !errors.Is(err, want) || v != len(at) {
					t.Errorf("returned %v of attempt %d, want %v of the last", err, v, want)
				}
				if !slices.Equal(at, c.want) || last.Stop != c.stop {
					t.Errorf("attempts at %v, then %q; want %v, then %q", at, last.Stop, c.want, c.stop)
				}
				if took := time.Since(start); took != c.want[len(c.want)-1] {
					t.Errorf("returned after %v: it waited before giving up", took)
				}
			})
		})
	}
}

// A caller that gives up during a wait gets the last error at once, and the retry is
// returned to the budget.
func TestCancelEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := &purse{left: 1}
		p := mustNew(t, Options{Base: time.Hour, Jitter: None, Budget: budget})
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		time.AfterFunc(time.Second, cancel)
		calls := 0
		err := p.Do(ctx, func(context.Context) error { calls++; return errDown })
		if !errors.Is(err, errDown) || calls != 1 || time.Since(start) != time.Second {
			t.Errorf("%v after %v and %d calls", err, time.Since(start), calls)
		}
		if *budget != (purse{requests: 1, left: 1, returned: 1}) {
			t.Errorf("%+v", *budget)
		}
	})
}

// The same holds if the wait ends at the moment when the context ends.
func TestContextThatEndsWithTheWait(t *testing.T) {
	for _, ends := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		budget := &purse{left: 2}
		clock := during{instant{now: noon}, func(context.Context) error {
			if ends {
				cancel()
			}
			return nil
		}}
		p := mustNew(t, Options{Budget: budget, Clock: clock.Now, Sleep: clock.Sleep})
		calls := 0
		if err := p.Do(ctx, func(context.Context) error { calls++; return errDown }); !errors.Is(err, errDown) {
			t.Error(err)
		}
		if want := map[bool]int{false: 3, true: 1}[ends]; calls != want || budget.left != 3-want {
			t.Errorf("%d calls, want %d; %+v", calls, want, budget)
		}
	}
}

func TestEndedContextIsNotRetried(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var stop Stop
	budget := &purse{left: 1}
	err := mustNew(t, Options{Budget: budget, Observe: func(s Step) { stop = s.Stop }}).Do(ctx, func(context.Context) error {
		cancel()
		return errDown
	})
	if !errors.Is(err, errDown) || stop != StopContext || budget.left != 1 {
		t.Errorf("%v, %v, %+v", err, stop, budget)
	}
}

// The waits of a policy are within their bounds, and no wait is shorter than the server
// asks for, whatever the jitter.
func TestWaitsAreAtLeastTheRetryAfter(t *testing.T) {
	property.Check(t, func(t *property.T) {
		jitter := property.Pick[Jitter](t, "jitter", Full, Equal, Decorrelated, None)
		asked := time.Duration(t.Int64("asked", 0, int64(time.Hour)))
		clock := &instant{now: time.Unix(0, 0)}
		p, err := New(Options{
			Attempts: 5, Base: time.Duration(t.Int64("base", 1, int64(time.Hour))), Cap: time.Hour, MaxRetryAfter: time.Hour,
			Jitter: jitter, Clock: clock.Now, Sleep: clock.Sleep, Source: rand.NewPCG(uint64(t.Int64("seed", math.MinInt64, math.MaxInt64)), 0),
		})
		if err != nil {
			t.Fatal(err)
		}
		_ = p.Do(t.Context(), func(context.Context) error { return After(errDown, asked) })
		if len(clock.slept) != 4 {
			t.Fatalf("slept %v", clock.slept)
		}
		most := asked + time.Hour
		if jitter != None {
			most += asked / retryAfterSpread
		}
		for _, d := range clock.slept {
			if d < asked || d > most {
				t.Fatalf("slept %v with a retry-after of %v", d, asked)
			}
		}
	})
}

// instant is a clock that only its own sleeps advance.
type instant struct {
	now   time.Time
	slept []time.Duration
}

func (c *instant) Now() time.Time { return c.now }
func (c *instant) Sleep(_ context.Context, d time.Duration) error {
	c.slept = append(c.slept, d)
	c.now = c.now.Add(d)
	return nil
}

func TestSameSeedSameWaits(t *testing.T) {
	waits := func() []time.Duration {
		clock := &instant{}
		p := mustNew(t, Options{Attempts: 6, Jitter: Decorrelated, Clock: clock.Now, Sleep: clock.Sleep, Source: rand.NewPCG(1, 2)})
		_ = p.Do(t.Context(), func(context.Context) error { return errDown })
		return clock.slept
	}
	if a, b := waits(), waits(); len(a) != 5 || !slices.Equal(a, b) {
		t.Errorf("%v and %v", a, b)
	}
}

func TestStepsTellWhatHappened(t *testing.T) {
	clock := &instant{now: time.Unix(0, 0)}
	var steps []Step
	p := mustNew(t, Options{Jitter: None, Clock: clock.Now, Sleep: clock.Sleep, Observe: func(s Step) { steps = append(steps, s) }})
	_ = p.Do(t.Context(), func(context.Context) error { return After(errDown, time.Second) })
	want := []string{
		"attempt 1: retry in 1.1s, asked for 1s", "attempt 2: retry in 1.2s, asked for 1s", "attempt 3: attempts used up in 0s, asked for 0s",
	}
	for i, s := range steps {
		if got := fmt.Sprintf("attempt %d: %v in %v, asked for %v", s.Attempt, s.Stop, s.Wait, s.RetryAfter); i >= len(want) || got != want[i] || !errors.Is(s.Err, errDown) {
			t.Errorf("step %d: %s (%v)", i, got, s.Err)
		}
	}
	if len(steps) != len(want) {
		t.Errorf("%d steps", len(steps))
	}
}

// The wait that a server asks for is lengthened by up to a third, and never shortened.
func TestRetryAfterIsSpread(t *testing.T) {
	const asked, waits = 10 * time.Second, 2000
	var least, most time.Duration = math.MaxInt64, 0
	clock := &instant{now: noon}
	p := mustNew(t, Options{
		Attempts: waits, Base: time.Nanosecond, Cap: time.Nanosecond, Clock: clock.Now, Sleep: clock.Sleep, Source: rand.NewPCG(1, 2),
		Observe: func(s Step) {
			if s.Stop == Continue {
				least, most = min(least, s.Wait), max(most, s.Wait)
			}
		},
	})
	_ = p.Do(t.Context(), func(context.Context) error { return After(errDown, asked) })
	if least < asked || least > asked+asked/100 || most > asked+asked/3 || most < asked+asked/3-asked/100 {
		t.Errorf("waits from %v to %v; want them all over %v to %v", least, most, asked, asked+asked/3)
	}
}

// A Classify of the caller may return any value.
func TestNegativeRetryAfterCountsAsZero(t *testing.T) {
	clock := &instant{now: noon}
	var steps []Step
	p := mustNew(t, Options{
		Attempts: 2, Jitter: None, Clock: clock.Now, Sleep: clock.Sleep,
		Classify: func(error) Classification { return Classification{Retry: true, After: math.MinInt64} },
		Observe:  func(s Step) { steps = append(steps, s) },
	})
	_ = p.Do(t.Context(), func(context.Context) error { return errDown })
	if len(steps) != 2 || steps[0].RetryAfter != 0 || steps[0].Wait != 100*time.Millisecond {
		t.Errorf("%+v", steps)
	}
}

func TestMarksKeepTheError(t *testing.T) {
	for _, err := range []error{Permanent(errDown), After(errDown, time.Second)} {
		if !errors.Is(err, errDown) || err.Error() != "down" {
			t.Errorf("%v", err)
		}
	}
	if Permanent(nil) != nil || After(nil, 1) != nil {
		t.Error("After(nil) or Permanent(nil) is not nil")
	}
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	for name, o := range map[string]Options{
		"Attempts: is -1":           {Attempts: -1},
		"Base: is -1":               {Base: -1},
		"Cap: 1ns is less than":     {Cap: 1},
		"Jitter: is 4":              {Jitter: 4},
		"TotalTime: is -1":          {TotalTime: -1},
		"MaxRetryAfter: is -1":      {MaxRetryAfter: -1},
		"Cap: -1ns is less than Ba": {Cap: -1},
	} {
		if p, err := New(o); err == nil || p != nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want an error that says so", name, err)
		}
	}
	if _, err := New(Options{Base: math.MaxInt64}); err != nil {
		t.Error(err)
	}
}

func TestStopsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for s := Continue; s <= StopBudget; s++ {
		seen[s.String()] = true
	}
	if len(seen) != int(StopBudget)+1 || seen["unknown"] || Stop(99).String() != "unknown" {
		t.Errorf("%v", seen)
	}
}
