package client

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Part is one of the parts that can refuse an attempt.
type Part uint8

// The parts.
const (
	PartBulkhead Part = iota // Err is a *bulkhead.RefusedError
	PartBreaker              // Err is a *breaker.RefusedError
	PartLimiter              // Err is the limiter's error: of a *stint.Limiter a *stint.Error
	PartDeadline             // Err is a *deadline.RefusedError
	partCount
)

// String returns the part in lower case: "bulkhead".
func (p Part) String() string {
	if p >= partCount {
		return "unknown"
	}
	return [partCount]string{"bulkhead", "breaker", "limiter", "deadline"}[p]
}

// ErrRefused is what a [*RefusedError] is to [errors.Is].
var ErrRefused = errors.New("the client did not send the request")

// RefusedError reports that a part refused an attempt, so that it was not sent.
// [errors.As] finds the part's own error in it.
type RefusedError struct {
	Name string // name of the dependency
	Part Part
	Err  error // the part's own error

	// RetryAfter is how long the breaker will still refuse attempts, or how long the
	// attempt would have waited for the limiter. Zero: unknown.
	RetryAfter time.Duration

	// Unavailable reports that a *stint.Limiter could not decide, because its store
	// fails: the attempt is not over a limit. A limiter with stint.FailClosed refuses
	// in this case.
	Unavailable bool

	// Before is the error of the attempt before this one, or a [*StatusError]. It is nil
	// for the first attempt. [errors.Is] and [errors.As] do not look into it.
	Before error
}

// Error returns the name, the reason and the error of the attempt before.
func (e *RefusedError) Error() string {
	text := fmt.Sprintf("not sent: %v", e.Err)
	if e.Name != "" {
		text = e.Name + ": " + text
	}
	if e.Before != nil {
		text += fmt.Sprintf(" (the attempt before: %v)", e.Before)
	}
	return text
}

// Is reports whether the target is [ErrRefused].
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// Unwrap returns the part's own error.
func (e *RefusedError) Unwrap() error { return e.Err }

// Timeout reports whether the part refused for lack of time.
func (e *RefusedError) Timeout() bool {
	var timeout interface{ Timeout() bool }
	return errors.As(e.Err, &timeout) && timeout.Timeout()
}

// Retryable returns false: a retry around the client would be refused again.
func (e *RefusedError) Retryable() bool { return false }

// StatusError is the status of a response that was discarded for another attempt.
type StatusError struct{ Status int }

// Error returns the status: "503 Service Unavailable".
func (e *StatusError) Error() string {
	return fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status))
}
