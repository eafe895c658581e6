package breaker

import (
	"context"
	"errors"
)

// Outcome is what the end of a call tells about the dependency.
type Outcome uint8

// The outcomes.
const (
	Success Outcome = iota // the dependency answered correctly; it may still have been slow
	Failure                // the call failed
	Ignored                // the result is unknown, because the caller gave up
)

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

// End ends the call with an outcome: it calls Success, Failure or Cancel.
func (c Call) End(o Outcome) {
	switch o {
	case Success:
		c.Success()
	case Ignored:
		c.Cancel()
	default:
		c.Failure()
	}
}

// Do calls f unless the breaker refuses; then it returns a [*RefusedError] and the zero
// value. [Options.Classify] decides what the error of f means. A panic counts as a
// failure.
func Do[T any](b *Breaker, f func() (T, error)) (v T, err error) {
	c, ok := b.Begin()
	if !ok {
		return v, &RefusedError{State: b.State(), RetryAfter: b.RetryAfter()}
	}
	how := Failure
	defer func() { c.End(how) }()
	v, err = f()
	how = b.options.Classify(err)
	return v, err
}

// Do is the function [Do] for a call that returns only an error.
func (b *Breaker) Do(f func() error) error {
	_, err := Do(b, func() (struct{}, error) { return struct{}{}, f() })
	return err
}
