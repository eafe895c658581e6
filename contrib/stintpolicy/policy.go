package stintpolicy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/ratelimiter"

	"github.com/stintdev/stint"
)

// Options configures a [Policy].
type Options[R any] struct {
	// Limiter holds the limits; required. Its policy ([stint.Limiter.With]) says what
	// happens while its store fails, and its clock ([stint.Limiter.WithClock]) measures
	// the waits.
	Limiter *stint.Limiter

	// Key returns the key that an execution is counted under, from its context. Defaults
	// to one key for all executions, "failsafe".
	Key func(ctx context.Context) string

	// Cost is how many units an execution takes, at least 1. Defaults to 1.
	Cost int64

	// MaxWait bounds how long an execution waits for its turn and for the delay of a
	// leaky bucket. If the wait would be longer, the execution is denied at once and not
	// counted. If the deadline of its context comes before its turn, it fails at once
	// with context.DeadlineExceeded. Executions that wait for one key are served in the
	// order in which they came. Zero: no execution waits.
	MaxWait time.Duration

	// OnDenied is called for every execution that is over the limit, and not while the
	// store fails. It must be safe for concurrent use.
	OnDenied func(failsafe.ExecutionEvent[R], stint.Decision)
}

// Policy is a failsafe.Policy. Make one with [New]; the zero value fails every execution.
// It is safe for use by many executors and goroutines at once. A Policy[any] can be
// composed with policies of every result type, by ComposeAny.
type Policy[R any] struct{ options Options[R] }

var _ failsafe.ResultAgnosticPolicy[any] = (*Policy[any])(nil)

// New returns a policy. The error lists every invalid option.
func New[R any](o Options[R]) (*Policy[R], error) {
	if o.Key == nil {
		o.Key = func(context.Context) string { return "failsafe" }
	}
	if o.Cost == 0 {
		o.Cost = 1
	}
	err := errors.Join(
		unless(o.Limiter.Name() != "", "Limiter: is missing, or was not made by stint.NewLimiter"),
		unless(o.Cost >= 1, "Cost: is %d; use at least 1", o.Cost),
		unless(o.MaxWait >= 0, "MaxWait: is %v, which is below 0", o.MaxWait),
	)
	if err != nil {
		return nil, err
	}
	return &Policy[R]{o}, nil
}

func unless(right bool, format string, args ...any) error {
	if right {
		return nil
	}
	return fmt.Errorf("stintpolicy: "+format, args...)
}

// ResultAgnostic implements failsafe.ResultAgnosticPolicy: the policy makes no results of
// its own.
func (p *Policy[R]) ResultAgnostic() {}

// DeniedError reports that an execution is over the limit. Its decision has the time to
// try again.
//
// An execution that could not be checked fails with a [*stint.Error] instead. While the
// store fails and the policy is [stint.FailClosed], that error is
// [stint.CodeUnavailable] to [errors.Is], and its RetryAfter is when the store is tried
// again.
type DeniedError struct{ Decision stint.Decision }

// Error returns the limit and the time to wait.
func (e *DeniedError) Error() string {
	if e.Decision.RetryAfter == stint.Never {
		return fmt.Sprintf("rate limit of %d can never be enough for this cost", e.Decision.Limit)
	}
	return fmt.Sprintf("rate limit of %d exceeded (try again in %v)", e.Decision.Limit, e.Decision.RetryAfter)
}

// Is reports whether the target is failsafe-go's ratelimiter.ErrExceeded, so that
// policies which handle that error also handle this one.
func (e *DeniedError) Is(target error) bool { return target == ratelimiter.ErrExceeded }

// Delay is a DelayFunc for retry policies around this one. For a denied execution it
// returns the time after which the limiter would allow it, and while the store fails the
// time after which it is tried again. For any other error it returns −1, and the policy's
// own delay applies.
func Delay[R any](exec failsafe.ExecutionAttempt[R]) time.Duration {
	err := exec.LastError()
	if denied, ok := errors.AsType[*DeniedError](err); ok && denied.Decision.RetryAfter != stint.Never {
		return denied.Decision.RetryAfter
	}
	if failed, ok := errors.AsType[*stint.Error](err); ok && failed.RetryAfter > 0 {
		return failed.RetryAfter
	}
	return -1
}
