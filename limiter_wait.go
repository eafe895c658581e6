package stint

import (
	"context"
	"time"
)

// Wait is shorthand for WaitN(ctx, key, 1).
func (l *Limiter) Wait(ctx context.Context, key string) error { return l.WaitN(ctx, key, 1) }

// WaitN blocks until key is allowed n units, and then for the delay of a leaky
// bucket. It fails at once and charges nothing when the wait would never end
// (CodeInvalid), when it would pass the deadline of ctx (CodeTimeout, with
// [KindWait] and [Error.RetryAfter]), and when ctx ends (CodeCanceled). While the
// store fails and the policy is [FailClosed], WaitN tries again when the store may
// be back, or fails with CodeUnavailable and RetryAfter if that is after the
// deadline.
//
// The deadline of ctx is measured by the system's clock. Under another clock
// ([Limiter.WithClock]), the time left until the deadline when WaitN is called
// is how long WaitN may wait by that clock. An end of ctx ends the wait under
// every clock.
//
// The callers that wait for one key of one Limiter form one queue, together with
// the callers of its copies from [Limiter.With]. The queue is
// first in, first out, whatever the costs. Under a single token bucket, GCRA or
// leaky bucket, WaitN also fails at once when the costs ahead in the queue make
// the wait too long. A leaky bucket has a second queue of its own: a caller
// with a place there leaves the first queue, and the next caller moves up.
// Allow and other processes bypass the queue and may be served first. When the
// store takes a millisecond or more to answer, the queue requests several
// places in a leaky bucket at once, and the store may hand them out in another
// order.
//
// A full bucket stops refilling. When n is the whole capacity, the time
// between the moment the bucket is full and the moment the waiter runs is
// therefore lost. A capacity that is one unit greater keeps the full rate, and
// so does a leaky bucket.
func (l *Limiter) WaitN(ctx context.Context, key string, n int64) error {
	return l.wait(ctx, &waiter{key: key, cost: n})
}

// wait is WaitN for a Limiter or a JointLimiter.
func (l *Limiter) wait(ctx context.Context, w *waiter) error {
	if !l.made() {
		return errNotMade
	}
	w.end = l.deadline(ctx)
	d, err := l.turn(ctx, w)
	switch {
	case err != nil:
		return err
	case d.Allowed:
		return nil
	case d.RetryAfter == Never:
		return invalid("cost: is greater than the limit, so no wait is long enough", "ask for less at once")
	}
	return passesDeadline(&d)
}

func passesDeadline(d *Decision) error {
	e := &Error{Code: CodeTimeout, Kind: KindWait, Problem: "the wait of " + d.RetryAfter.String() + " would pass the deadline",
		Err: context.DeadlineExceeded, RetryAfter: d.RetryAfter}
	if d.Unavailable {
		e.Code, e.Kind = CodeUnavailable, ""
		e.Problem = "the store failed, and its next attempt in " + d.RetryAfter.String() + " would pass the deadline"
	}
	return e
}

// WaitWithin is WaitN for a caller that waits for at most maxWait and handles
// denials itself. When maxWait is not long enough, it returns at once, charges
// nothing, and returns a Decision that is not Allowed; RetryAfter is the length
// of the wait. With a maxWait of 0 or less it neither waits nor joins the
// queue.
func (l *Limiter) WaitWithin(ctx context.Context, key string, n int64, maxWait time.Duration) (Decision, error) {
	if n < 1 {
		return Decision{}, refuseNothing()
	}
	if maxWait <= 0 || !l.made() {
		return l.take(ctx, Claim{Key: key, Cost: n, MaxDelay: -1})
	}
	return l.waitWithin(ctx, &waiter{key: key, cost: n}, maxWait)
}

// waitWithin is WaitWithin with a maxWait above 0, for a Limiter or a JointLimiter.
func (l *Limiter) waitWithin(ctx context.Context, w *waiter, maxWait time.Duration) (Decision, error) {
	deadline := l.deadline(ctx)
	w.end = l.now().Add(maxWait)
	sooner := !deadline.IsZero() && deadline.Before(w.end)
	if sooner {
		w.end = deadline
	}
	d, err := l.turn(ctx, w)
	if err == nil && !d.Allowed && sooner && d.RetryAfter <= maxWait && d.RetryAfter != Never {
		err = passesDeadline(&d)
	}
	return d, err
}

// turn queues for the key of the waiter and returns the decision that allows it,
// after its delay. It returns a denial when the units cannot be had before the
// waiter's end.
func (l *Limiter) turn(ctx context.Context, w *waiter) (Decision, error) {
	if l.observed != nil {
		return l.observed.turn(ctx, w)
	}
	if w.cost < 1 {
		return Decision{}, refuseNothing()
	}
	if ctx.Err() != nil {
		return Decision{}, gaveUp(ctx, "waiting")
	}
	served := false
	defer func() {
		if !served { // deferred, because the callers behind it wait even if the store panics
			l.waiting.leave(w)
		}
	}()
	for next := l.waiting.arrive(l, w); ; {
		due, came := l.now(), true
		switch next {
		case giveUp:
			return w.denial, nil
		case standBy:
			next, came = l.waiting.standBy(ctx, l, w)
			if came {
				continue
			}
		case askLater:
			due = due.Add(max(w.denial.RetryAfter, leastPause))
			came = l.sleepUntil(ctx, due)
		}
		if !came {
			return Decision{}, gaveUp(ctx, "waiting")
		}
		asked := l.now()
		d, wait, late, err := l.try(ctx, w, due)
		switch {
		case err != nil:
			return d, err
		case d.Allowed:
			l.waiting.serve(l, w, d.Remaining, l.now().Sub(asked))
			served = true
			return l.serveDelay(ctx, w, d)
		}
		next = l.waiting.deny(l, w, d, wait, late)
	}
}

// leastPause is the shortest pause between two attempts. It keeps a store that
// denies without a retry time from being called in a tight loop.
const leastPause = time.Microsecond

// try makes one attempt, which was due at the given time. After a denial, wait
// is how long the request would wait until it is served, and late reports
// whether that is after the waiter's end.
func (l *Limiter) try(ctx context.Context, w *waiter, due time.Time) (d Decision, wait time.Duration, late bool, err error) {
	c, left := Claim{Key: w.key, Cost: w.cost}, Never
	if !w.end.IsZero() {
		left = l.usable(w.end.Sub(l.now()))
		c.MaxDelay = left
		defer l.noteTime(due)
	}
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx) // the attempt was due before ctx ended
	}
	if !l.shapes {
		d, err = l.takeKeys(ctx, c, w.keys)
		return d, d.RetryAfter, d.RetryAfter == Never || d.RetryAfter > left, err
	}
	each := make([]Decision, len(l.all.claims))
	_, d, err = l.all.takeEach(ctx, &c, w.keys, each)
	wait = d.RetryAfter
	for i := range l.all.claims {
		if l.all.claims[i].Limit.n.alg == LeakyBucket {
			wait = max(wait, each[i].ResetAfter) // a later place in the queue is served no sooner
		}
	}
	return d, wait, wait == Never || wait > left, err
}

// serveDelay sleeps for the delay of an allowed request. When ctx or the
// waiter's end comes first, it refunds the request; limits that accept no
// refund, such as a leaky bucket, keep the charge.
func (l *Limiter) serveDelay(ctx context.Context, w *waiter, d Decision) (Decision, error) {
	if d.Delay == 0 {
		return d, nil
	}
	due := l.now().Add(d.Delay)
	late := !w.end.IsZero() && due.After(w.end) // the store took longer than its recent latency
	if !late && l.sleepUntil(ctx, due) {
		return d, nil
	}
	if !d.Degraded {
		if _, err := l.takeKeys(context.WithoutCancel(ctx), refundClaim(w.key, w.cost, &d), w.keys); err != nil {
			return Decision{}, err
		}
	}
	if !late {
		return Decision{}, gaveUp(ctx, "waiting")
	}
	return Decision{Limit: d.Limit, RetryAfter: d.Delay, At: d.At}, nil
}
