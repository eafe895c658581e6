package retry

import (
	"context"
	"math"
	"time"
)

// Do calls f until it succeeds or the policy stops, and returns what the last
// call returned, its error unchanged: also when the context ends during a
// wait. The first call is made whatever the context.
func Do[T any](ctx context.Context, p *Policy, f func(context.Context) (T, error)) (T, error) {
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

func (p *Policy) begin(ctx context.Context) *run {
	p.once.Do(p.setDefaults)
	if b := p.options.Budget; b != nil {
		b.Request()
	}
	return &run{policy: p, ctx: ctx, start: p.options.Clock.Now()}
}

// again waits for the next attempt, and reports whether to make it.
func (r *run) again(v Verdict, s Step) bool {
	wait, ok := r.decide(v, s)
	return ok && r.sleep(wait)
}

// decide reports whether there is to be another attempt, after which wait. The
// step says what is known of the one that failed.
func (r *run) decide(v Verdict, s Step) (wait time.Duration, ok bool) {
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

// stop is the reason to stop that can be known without a wait.
func (r *run) stop(v Verdict) Stop {
	switch o := &r.policy.options; {
	case !v.Retry:
		return StopVerdict
	case r.attempt >= o.Attempts:
		return StopAttempts
	case r.ctx.Err() != nil:
		return StopContext
	case v.After > o.MaxHint:
		return StopHint
	}
	return Continue
}

// schedule draws the wait. The budget is asked last, so that it gives no retry
// to who cannot use it, and before the wait, so that who gets none need not
// wait.
func (r *run) schedule(v Verdict, s *Step) {
	r.last = r.policy.backoff.Wait(r.attempt-1, r.last, r.policy.random)
	wait := sum(r.last, r.spread(v.After))
	switch b := r.policy.options.Budget; {
	case r.tooLate(wait):
		s.Stop = StopDeadline
	case b != nil && !b.Retry():
		s.Stop = StopBudget
	default:
		s.Wait, s.Hint = wait, max(0, v.After)
	}
}

// spread adds up to a third to the wait that a server asks for, by chance: it may
// have asked many to come back at one moment. Without jitter nothing is drawn.
func (r *run) spread(hint time.Duration) time.Duration {
	if r.policy.options.Jitter == None || hint < hintSpread {
		return hint
	}
	return sum(hint, time.Duration(r.policy.random(int64(hint/hintSpread))))
}

// hintSpread is the part of a hint that chance may add.
const hintSpread = 3

// tooLate reports whether an attempt after this wait would begin with no time
// left.
func (r *run) tooLate(wait time.Duration) bool {
	now := r.policy.options.Clock.Now()
	if total := r.policy.options.TotalTime; total > 0 && sum(now.Sub(r.start), wait) > total {
		return true
	}
	end, ok := r.ctx.Deadline()
	return ok && wait >= end.Sub(now)
}

// sleep reports whether the wait went by before the context ended: a timer may
// be late. If not, the retry is not sent.
func (r *run) sleep(wait time.Duration) bool {
	err := r.policy.options.Clock.Sleep(r.ctx, wait)
	if err != nil || r.ctx.Err() != nil {
		r.refund()
		return false
	}
	return true
}

func (r *run) refund() {
	if b := r.policy.options.Budget; b != nil {
		b.Return()
	}
}

// sum adds two times of which neither is below 0, as far as there are numbers.
func sum(a, b time.Duration) time.Duration {
	a, b = max(0, a), max(0, b)
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
