package retry

import (
	"context"
	"errors"
	"time"
)

// Verdict is what the end of an attempt means. The zero value: no retry.
type Verdict struct {
	Retry bool
	After time.Duration // the least wait, to which the backoff is added, and chance up to a third of it
}

// Classify is the verdict on an error of any call: no retry for none, for
// [context.Canceled] and for [Permanent], a retry after its time for [After],
// none for an error that has a method Retryable which says false, as the
// refusals of a breaker, a bulkhead and a deadline have, and a retry for
// everything else. That an attempt ran out of a time of its
// own is worth a retry; when the context of all attempts has ended, there is
// none whatever the verdict.
func Classify(err error) Verdict {
	var permanent *permanentError
	var after *afterError
	switch {
	case err == nil, errors.As(err, &permanent), errors.Is(err, context.Canceled):
		return Verdict{}
	case errors.As(err, &after):
		return Verdict{Retry: true, After: after.wait}
	}
	return Verdict{Retry: !refusal(err)}
}

// refusal reports whether an error says of itself that a retry is in vain.
func refusal(err error) bool {
	var r interface{ Retryable() bool }
	return errors.As(err, &r) && !r.Retryable()
}

// Permanent marks an error that no retry mends. Its text stays, and
// [errors.Is] and [errors.As] see through it. Of nil it is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ error }

func (e *permanentError) Unwrap() error { return e.error }

// After marks an error that asks for a wait of at least that long before the
// retry. Its text stays, and [errors.Is] and [errors.As] see through it. Of
// nil it is nil.
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
