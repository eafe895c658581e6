package breaker

import (
	"context"
	"errors"
)

// Outcome is what the end of a call says of the callee.
type Outcome uint8

// The outcomes.
const (
	Success Outcome = iota // it answered as it should; it may still have been slow
	Failure                // it did not
	Ignored                // nothing is known of it: the caller gave up
)

// Classify is the default of [Options]: every error is a failure, but for
// [context.Canceled], which is ignored, because callers cancel.
func Classify(err error) Outcome {
	switch {
	case err == nil:
		return Success
	case errors.Is(err, context.Canceled):
		return Ignored
	}
	return Failure
}

// End says how the call ended: it is Success, Failure or Cancel.
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

// Do calls f unless the breaker refuses; it then returns a [*RefusedError] and
// the zero value. What the call says of the callee is for [Options.Classify] to
// say; a panic is a failure.
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
