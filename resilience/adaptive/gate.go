package adaptive

import (
	"context"
	"errors"
	"time"
)

// Gate admits calls or sheds them. It is safe for concurrent use.
type Gate interface {
	// Begin reports whether a call may go ahead. If ok, the caller must end the Call.
	Begin() (c Call, ok bool)
}

// begin calls the gate's Begin. A nil gate admits every call.
func begin(g Gate) (Call, bool) {
	if g == nil {
		return Call{}, true
	}
	return g.Begin()
}

// Outcome is what a call tells about the load.
type Outcome uint8

// The outcomes.
const (
	Success Outcome = iota // the call was answered in time, whatever the answer
	Failure                // overload: it was refused further on, or was too late
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

// Call is a call that a [Gate] admitted. End it exactly once, by Success, Failure, Ignore
// or End. If its place is held for another time than until the outcome is known, report
// the outcome once by Answer and end the call once by Release. The zero Call belongs to
// no gate; ending it does nothing.
type Call struct {
	gate  ender
	start time.Duration
}

type ender interface {
	answer(c Call, o Outcome)
	release()
	now() time.Duration
}

// Success ends a call that was answered in time, whatever the answer.
func (c Call) Success() { c.End(Success) }

// Failure ends a call that an overload made fail: it was refused further on, or was too
// late.
func (c Call) Failure() { c.End(Failure) }

// Ignore ends a call that tells nothing about the load, for example because the caller
// gave up.
func (c Call) Ignore() { c.End(Ignored) }

// End is shorthand for Answer and Release.
func (c Call) End(o Outcome) {
	c.Answer(o)
	c.Release()
}

// Answer reports the outcome of the call. The call's latency is the time from Begin until
// Answer.
func (c Call) Answer(o Outcome) {
	if c.gate != nil {
		c.gate.answer(c, o)
	}
}

// Release frees the call's place.
func (c Call) Release() {
	if c.gate != nil {
		c.gate.release()
	}
}

// Do calls f unless the gate sheds the call; then it returns a [*RefusedError] and the
// zero value. If the context has ended before the call, Do returns the context's error.
// An error of f is a Failure, so f must not return errors that are not about load, but
// Ignored if it is context.Canceled or the context was canceled. A panic is Ignored.
func Do[T any](ctx context.Context, g Gate, f func(context.Context) (T, error)) (v T, err error) {
	if err := ctx.Err(); err != nil {
		return v, err
	}
	c, ok := begin(g)
	if !ok {
		return v, &RefusedError{}
	}
	how := Ignored
	defer func() { c.End(how) }()
	v, err = f(ctx)
	switch {
	case err == nil:
		how = Success
	case !errors.Is(err, context.Canceled) && !errors.Is(ctx.Err(), context.Canceled):
		how = Failure
	}
	return v, err
}

// ErrRefused is what a [*RefusedError] is to [errors.Is].
var ErrRefused = errors.New("the gate refused the call")

// RefusedError reports that a gate shed a call, which was not made.
type RefusedError struct {
	Host string // of the request to a Transport; "" in Do
}

// Error returns the host and the reason.
func (e *RefusedError) Error() string {
	const text = "not sent: shed, because of overload"
	if e.Host == "" {
		return text
	}
	return e.Host + ": " + text
}

// Is reports whether the target is [ErrRefused].
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// Retryable returns false: package retry does not repeat a call that the gate refused.
func (e *RefusedError) Retryable() bool { return false }
