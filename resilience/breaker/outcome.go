package breaker

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Outcome is what the end of a call tells about the dependency.
type Outcome uint8

// The outcomes.
const (
	Success Outcome = iota // the dependency answered correctly; it may still have been slow
	Failure                // the call failed
	Ignored                // the result is unknown, for example because the caller gave up
)

// String returns the outcome in lower case: "success".
func (o Outcome) String() string {
	names := [...]string{"success", "failure", "ignored"}
	if int(o) >= len(names) {
		return "unknown"
	}
	return names[o]
}

// Classify is the default of [Options]. Every error is a failure, except
// [context.Canceled], which is ignored: the caller canceled.
func Classify(err error) Outcome {
	switch {
	case err == nil:
		return Success
	case errors.Is(err, context.Canceled):
		return Ignored
	}
	return Failure
}

// End ends the call with an outcome: it calls Success, Failure or Ignore.
func (c Call) End(o Outcome) {
	switch o {
	case Success:
		c.Success()
	case Ignored:
		c.Ignore()
	default:
		c.Failure()
	}
}

// Do calls f unless the breaker refuses; then it returns a [*RefusedError] and the zero
// value. If the context has ended before the call, Do returns the context's error. The
// outcome of f is Ignored if f fails after the context was canceled; otherwise
// [Options.Classify] decides what the error of f means. A panic counts as a failure.
func Do[T any](ctx context.Context, b *Breaker, f func(context.Context) (T, error)) (v T, err error) {
	if err := ctx.Err(); err != nil {
		return v, err
	}
	c, ok := b.Begin()
	if !ok {
		return v, b.Refusal()
	}
	how := Failure
	defer func() { c.End(how) }()
	v, err = f(ctx)
	how = c.classify(ctx, err)
	return v, err
}

// Do is the function [Do] for a call that returns only an error.
func (b *Breaker) Do(ctx context.Context, f func(context.Context) error) error {
	_, err := Do(ctx, b, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
	return err
}

func (c Call) classify(ctx context.Context, err error) Outcome {
	switch {
	case c.breaker == nil: // nothing counts the outcome
		return Ignored
	case err != nil && errors.Is(ctx.Err(), context.Canceled):
		return Ignored
	}
	return c.breaker.options.Classify(err)
}

// ErrRefused is what a [*RefusedError] is to [errors.Is].
var ErrRefused = errors.New("the circuit breaker refused the call")

// RefusedError reports that a breaker refused a call.
type RefusedError struct {
	State      State
	RetryAfter time.Duration // as returned by Breaker.RetryAfter
}

// Refusal returns the error for a call that Begin has just refused.
func (b *Breaker) Refusal() *RefusedError {
	return &RefusedError{State: b.State(), RetryAfter: b.RetryAfter()}
}

// Error returns the state and the time until the next attempt can succeed.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("circuit breaker is %v (ask again in %v)", e.State, e.RetryAfter)
}

// Is reports whether the target is [ErrRefused].
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// Retryable returns false: package retry does not repeat a call that the breaker refused.
func (e *RefusedError) Retryable() bool { return false }
