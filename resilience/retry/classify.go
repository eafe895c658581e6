package retry

import (
	"context"
	"errors"
	"time"
)

// Classification says whether a failed attempt is worth a retry. The zero value: no
// retry.
type Classification struct {
	Retry bool
	After time.Duration // the least wait; the backoff and a random part of up to a third of After are added
}

// Classify classifies the error of any call. There is no retry for nil, for
// [context.Canceled], for [Permanent] and for an error whose method Retryable returns
// false, such as the refusals of a breaker, a bulkhead and a deadline. There is a retry
// after its wait for [After], and a retry for every other error.
//
// An attempt that exceeds a deadline of its own is worth a retry. If the context of the
// whole call has ended, there is no retry, whatever Classify returns.
func Classify(err error) Classification {
	var permanent *permanentError
	var after *afterError
	switch {
	case err == nil, errors.As(err, &permanent), errors.Is(err, context.Canceled):
		return Classification{}
	case errors.As(err, &after):
		return Classification{Retry: true, After: after.wait}
	}
	return Classification{Retry: !refusal(err)}
}

// refusal reports whether an error has a method Retryable that returns false.
func refusal(err error) bool {
	var r interface{ Retryable() bool }
	return errors.As(err, &r) && !r.Retryable()
}

// Permanent marks an error that no retry can cure. Its text stays the same, and
// [errors.Is] and [errors.As] see through it. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ error }

func (e *permanentError) Unwrap() error { return e.error }

// After marks an error that asks for a wait of at least that long before the retry. Its
// text stays the same, and [errors.Is] and [errors.As] see through it. After(nil, wait)
// is nil.
func After(err error, wait time.Duration) error {
	if err == nil {
		return nil
	}
	return &afterError{err, max(0, wait)}
}

type afterError struct {
	error
	wait time.Duration
}

func (e *afterError) Unwrap() error { return e.error }
