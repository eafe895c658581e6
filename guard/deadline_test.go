package guard

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/storekit"
)

type keyType struct{}

// newCallContext begins a call of 50 ms as a store sees it.
func newCallContext(t *testing.T, ctx context.Context) *callContext { //nolint:revive // the context is what is tested
	t.Helper()
	b, err := breaker.New(DefaultBreaker())
	if err != nil {
		t.Fatal(err)
	}
	call, _ := b.Begin()
	v := &callContext{Context: ctx, call: call, within: 50 * time.Millisecond}
	t.Cleanup(v.end)
	return v
}

// However late the store asks, the deadline counts from the call.
func TestDeadlineCountsFromTheCall(t *testing.T) {
	for name, wait := range map[string]func(*callContext){
		"done":    func(v *callContext) { <-v.Done() },
		"derived": func(v *callContext) { c, cancel := context.WithCancel(v); defer cancel(); <-c.Done() },
		"polled": func(v *callContext) {
			for v.Err() == nil {
				time.Sleep(time.Millisecond)
			}
		},
		"read": func(v *callContext) { at, _ := v.Deadline(); time.Sleep(time.Until(at)); synctest.Wait() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := newCallContext(t, t.Context())
				start := time.Now()
				time.Sleep(20 * time.Millisecond)
				wait(v)
				if took := time.Since(start); took != 50*time.Millisecond {
					t.Errorf("ended after %v", took)
				}
				if !errors.Is(v.Err(), context.DeadlineExceeded) {
					t.Error(v.Err())
				}
			})
		})
	}
}

func TestCallersContextHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithTimeout(context.WithValue(t.Context(), keyType{}, 7), time.Millisecond)
		defer cancel()
		v := newCallContext(t, parent)
		if v.Value(keyType{}) != 7 || v.Err() != nil {
			t.Error(v.Value(keyType{}), v.Err())
		}
		sooner, _ := parent.Deadline()
		if at, ok := v.Deadline(); !ok || !at.Equal(sooner) {
			t.Errorf("deadline in %v", time.Until(at))
		}
		if v.Value(keyType{}) != 7 {
			t.Error("a timer hides the caller's values")
		}
		cancel()
		if <-v.Done(); !errors.Is(v.Err(), context.Canceled) {
			t.Error(v.Err())
		}
	})
}

func TestCallerThatGaveUpNeedsNoTimer(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	cancel()
	v := newCallContext(t, parent)
	if !errors.Is(v.Err(), context.Canceled) || v.timed.Load() != nil {
		t.Error(v.Err(), v.timed.Load())
	}
}

// A store that only reads the deadline, as one that waits for a network does, causes no
// timer. The deadline does not move, and ends the context all the same.
func TestDeadlineIsReadWithoutATimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newCallContext(t, t.Context())
		want := time.Now().Add(v.within)
		for range 2 {
			time.Sleep(10 * time.Millisecond)
			if at, ok := v.Deadline(); !ok || !at.Equal(want) || v.timed.Load() != nil {
				t.Errorf("%v after the deadline, %v", at.Sub(want), v.timed.Load())
			}
		}
		time.Sleep(time.Until(want))
		if <-v.Done(); !errors.Is(v.Err(), context.DeadlineExceeded) || time.Now() != want {
			t.Error(v.Err(), time.Since(want))
		}
	})
}

// A breaker that looks for no slow calls does not measure the call.
func TestDeadlineOfACallThatIsNotMeasuredDoesNotMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &callContext{Context: t.Context(), within: 50 * time.Millisecond}
		defer v.end()
		want, _ := v.Deadline()
		time.Sleep(10 * time.Millisecond)
		if at, ok := v.Deadline(); !ok || at != want {
			t.Errorf("moved by %v", at.Sub(want))
		}
	})
}

// until is a context whose own timer has not fired, whatever its deadline is.
type until struct {
	context.Context //nolint:containedctx // the type is a context

	deadline time.Time
}

func (u until) Deadline() (time.Time, bool) { return u.deadline, true }

// A store that keeps the deadline of a call by itself may do so before the
// context hears of it. It is the caller's deadline all the same.
func TestTimeThatIsOverIsTheCallers(t *testing.T) {
	for after, want := range map[time.Duration]class{-time.Microsecond: classCanceled, time.Hour: classFailure} {
		ctx := until{t.Context(), time.Now().Add(after)}
		for _, err := range []error{&stint.Error{Code: stint.CodeTimeout, Kind: "timeout", Problem: "no answer"}, context.DeadlineExceeded} {
			if got := classify(ctx, err); got != want {
				t.Errorf("%v after the deadline, %v: class %d, want %d", -after, err, got, want)
			}
		}
	}
}

// An observer between the leases and the guard derives contexts. The deadline still counts
// from the beginning of the check.
func TestDeadlineCountsFromTheCheckInADerivedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{options: Options{Deadline: 50 * time.Millisecond}}
		ctx := context.WithValue(storekit.WithBegun(t.Context(), time.Now()), keyType{}, "a span")
		for _, wait := range []time.Duration{0, 10 * time.Millisecond, 70 * time.Millisecond} {
			time.Sleep(wait)
			begun, _ := storekit.Begun(ctx)
			if got, want := s.within(ctx), max(25*time.Millisecond, 50*time.Millisecond-time.Since(begun)); got != want {
				t.Errorf("after %v more: %v left; want %v", wait, got, want)
			}
		}
		if got := s.within(t.Context()); got != 50*time.Millisecond {
			t.Errorf("without a time: %v", got)
		}
	})
}
