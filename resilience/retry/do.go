package retry

import (
	"context"
	"math"
	"time"
)

// Do calls f until it succeeds or the policy stops. It returns the unchanged result of
// the last call, also when the context ends during a wait. It makes the first call even
// if the context has ended. A nil policy is the zero Policy.
func Do[T any](ctx context.Context, p *Policy, f func(context.Context) (T, error)) (T, error) {
	p = p.orZero()
	r := p.begin(ctx)
	for {
		v, err := f(ctx)
		if err == nil || !r.again(p.options.Classify(err), Step{Err: err}) {
			return v, err
		}
	}
}

// Do is the function [Do] for a call that returns only an error.
func (p *Policy) Do(ctx context.Context, f func(context.Context) error) error {
	_, err := Do(ctx, p, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
	return err
}

// run is one call and its retries.
type run struct {
	policy  *Policy
	ctx     context.Context //nolint:containedctx // a run is as short as the call that has it
	start   time.Time
	attempt int
	last    time.Duration // the last backoff
}

func (p *Policy) orZero() *Policy {
	if p == nil {
		return &Policy{}
	}
	return p
}

func (p *Policy) begin(ctx context.Context) *run {
	p.once.Do(p.setDefaults)
	if b := p.options.Budget; b != nil {
		b.Request()
	}
	return &run{policy: p, ctx: ctx, start: p.options.Clock()}
}

// again waits for the next attempt, and reports whether to make it.
func (r *run) again(v Classification, s Step) bool {
	wait, ok := r.decide(v, s)
	return ok && r.sleep(wait)
}

// decide reports whether to make another attempt, and the wait before it. s describes the
// attempt that failed.
func (r *run) decide(v Classification, s Step) (wait time.Duration, ok bool) {
	r.attempt++
	s.Attempt = r.attempt
	if s.Stop = r.stop(v); s.Stop == Continue {
		r.schedule(v, &s)
	}
	if o := r.policy.options.Observe; o != nil {
		o(s)
	}
	return s.Wait, s.Stop == Continue
}

// stop returns the reason to stop that is known before the wait is drawn, or Continue.
func (r *run) stop(v Classification) Stop {
	switch o := &r.policy.options; {
	case !v.Retry:
		return StopNotRetryable
	case r.attempt >= o.Attempts:
		return StopAttempts
	case r.ctx.Err() != nil:
		return StopContext
	case v.After > o.MaxRetryAfter:
		return StopRetryAfter
	}
	return Continue
}

// schedule draws the wait. It asks the budget last, so that no retry is granted that
// cannot be used, and before the wait, so that a refused caller does not wait.
func (r *run) schedule(v Classification, s *Step) {
	r.last = r.policy.backoff.Wait(r.attempt-1, r.last, r.policy.random)
	wait := sum(r.last, r.spread(v.After))
	switch b := r.policy.options.Budget; {
	case r.tooLate(wait):
		s.Stop = StopDeadline
	case b != nil && !b.Retry():
		s.Stop = StopBudget
	default:
		s.Wait, s.RetryAfter = wait, max(0, v.After)
	}
}

// spread adds a random part, up to a third, to the wait that a server asks for, because
// the server may have asked many clients to return at the same time. With Jitter None it
// adds nothing.
func (r *run) spread(asked time.Duration) time.Duration {
	if r.policy.options.Jitter == None || asked < retryAfterSpread {
		return asked
	}
	return sum(asked, time.Duration(r.policy.random(int64(asked/retryAfterSpread))))
}

// retryAfterSpread is the divisor that turns the wait that a server asks for into the
// greatest random addition to it.
const retryAfterSpread = 3

// tooLate reports whether an attempt after this wait would begin with no time
// left.
func (r *run) tooLate(wait time.Duration) bool {
	now := r.policy.options.Clock()
	if total := r.policy.options.TotalTime; total > 0 && sum(now.Sub(r.start), wait) > total {
		return true
	}
	end, ok := r.ctx.Deadline()
	return ok && wait >= end.Sub(now)
}

// sleep waits, and reports whether the wait ended before the context. It checks the
// context again because a timer may be late. If the context ended, the retry is returned
// to the budget.
func (r *run) sleep(wait time.Duration) bool {
	err := r.policy.options.Sleep(r.ctx, wait)
	if err != nil || r.ctx.Err() != nil {
		r.refund()
		return false
	}
	return true
}

func (r *run) refund() {
	if b := r.policy.options.Budget; b != nil {
		b.Refund()
	}
}

// sum adds two durations, taking those below 0 as 0. If the sum overflows it is the
// greatest Duration.
func sum(a, b time.Duration) time.Duration {
	a, b = max(0, a), max(0, b)
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Step is the decision of a policy after an attempt that failed.
type Step struct {
	Attempt    int           // the attempt that failed, from 1
	Wait       time.Duration // before the next attempt; 0 unless Stop is Continue
	RetryAfter time.Duration // the part of the wait that the server asked for
	Stop       Stop
	Err        error // the error of the attempt; nil if there was a response
	Status     int   // of the response; 0 if there was none
}

// Stop is the reason why there is no retry.
type Stop uint8

// The reasons.
const (
	Continue         Stop = iota // there is a retry
	StopNotRetryable             // repeating would not help, or could do harm
	StopAttempts                 // all attempts are made
	StopContext                  // the context has ended
	StopDeadline                 // the wait would end after the deadline or TotalTime
	StopRetryAfter               // the server asks for a longer wait than MaxRetryAfter
	StopBudget                   // the budget has no retry left
)

// String returns the reason in the form used in logs. Package stintprom makes its
// label values from it.
func (s Stop) String() string {
	names := [...]string{"retry", "not to be repeated", "attempts used up", "context ended", "deadline too near",
		"asked to wait too long", "budget used up"}
	if int(s) >= len(names) {
		return "unknown"
	}
	return names[s]
}
