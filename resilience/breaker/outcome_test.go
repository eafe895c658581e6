package breaker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// Calls whose caller gives up say nothing about the dependency: they do not open the
// breaker, do not end a run of consecutive failures, and do not close it as probes.
func TestIgnoredOutcomes(t *testing.T) {
	var clock clock
	canceled := fmt.Errorf("GET: %w", context.Canceled)
	down := errors.New("connection refused")
	b := mustNew(t, Options{ConsecutiveFailures: 2, OpenFor: time.Second, Clock: clock.read})
	do := func(err error) error { return b.Do(t.Context(), func(context.Context) error { return err }) }
	for range 100 {
		if err := do(canceled); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if c := b.Counts(); b.State() != Closed || c.Calls != 0 {
		t.Fatalf("%v with %+v after calls that were given up", b.State(), c)
	}
	_ = do(down)
	_ = do(canceled)
	if _ = do(down); b.State() != Open {
		t.Error("an ignored call ended a run of consecutive failures")
	}
	clock.pass(time.Second)
	for range 3 { // each probe releases its place
		if err := do(canceled); !errors.Is(err, context.Canceled) || b.State() != HalfOpen {
			t.Fatalf("%v, %v", err, b.State())
		}
	}
	if _ = do(nil); b.State() != Closed {
		t.Errorf("%v after a probe", b.State())
	}
}

func TestClassify(t *testing.T) {
	for want, errs := range map[Outcome][]error{
		Success: {nil}, Ignored: {context.Canceled, fmt.Errorf("x: %w", context.Canceled)}, Failure: {errors.New("x"), context.DeadlineExceeded},
	} {
		for _, err := range errs {
			if got := Classify(err); got != want {
				t.Errorf("%v: %d, want %d", err, got, want)
			}
		}
	}
}

func TestOutcomeOfOnesOwn(t *testing.T) {
	notFound := errors.New("404")
	b := mustNew(t, Options{ConsecutiveFailures: 1, Classify: func(err error) Outcome {
		if errors.Is(err, notFound) {
			return Ignored
		}
		return Classify(err)
	}})
	v, err := Do(t.Context(), b, func(context.Context) (int, error) { return 42, notFound })
	if v != 42 || !errors.Is(err, notFound) || b.State() != Closed || b.Counts().Calls != 0 {
		t.Errorf("%d, %v, %v", v, err, b.State())
	}
	_, _ = Do(t.Context(), b, func(context.Context) (int, error) { return 0, errors.New("500") })
	var refused *RefusedError
	if v, err := Do(t.Context(), b, func(context.Context) (int, error) { return 42, nil }); v != 0 || !errors.As(err, &refused) {
		t.Errorf("%d, %v", v, err)
	}
}

// The zero Breaker behaves like one with zero Options, whichever method is called first.
func TestZeroBreaker(t *testing.T) {
	for name, use := range map[string]func(b *Breaker){
		"Begin":      func(b *Breaker) { c, _ := b.Begin(); c.Success() },
		"BeginProbe": func(b *Breaker) { c, _ := b.BeginProbe(); c.Failure() },
		"Do":         func(b *Breaker) { _ = b.Do(t.Context(), func(context.Context) error { return nil }) },
		"State":      func(b *Breaker) { _ = b.State() },
		"Counts":     func(b *Breaker) { _ = b.Counts() },
		"RetryAfter": func(b *Breaker) { _ = b.RetryAfter() },
		"Reset":      func(b *Breaker) { b.Reset() },
		"Disable": func(b *Breaker) {
			b.Disable()
			_ = b.Do(t.Context(), func(context.Context) error { return nil })
			b.Reset()
		},
	} {
		b := &Breaker{}
		use(b)
		if b.State() != Closed {
			t.Errorf("%s: %v", name, b.State())
		}
		for range 40 {
			_ = b.Do(t.Context(), func(context.Context) error { return errors.New("down") })
		}
		if b.State() != Open {
			t.Errorf("%s: %v after forty failures", name, b.State())
		}
	}
	var forced Breaker
	if forced.ForceOpen(); forced.State() != ForcedOpen || forced.RetryAfter() != time.Minute {
		t.Errorf("%v for %v", forced.State(), forced.RetryAfter())
	}
	Call{}.End(Failure)
}
