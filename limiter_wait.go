package stint

import (
	"context"
	"time"
)

// Wait is shorthand for WaitN(ctx, key, 1).
func (l *Limiter) Wait(ctx context.Context, key string) error { return l.WaitN(ctx, key, 1) }

// WaitN blocks until key has been allowed n units, and for as long as a leaky
// bucket delays it. It fails at once, charging nothing, when the wait would
// never end (CodeInvalid) or would pass the deadline of ctx (CodeTimeout, of
// the kind "wait"), and when ctx ends (CodeCanceled).
//
// Those that wait for one key of one Limiter stand in one queue: they are
// served in the order in which they came, whatever their costs. Under a single
// token bucket, GCRA or leaky bucket, a wait that those ahead make too long
// fails at once, too. A leaky bucket keeps its own queue behind that one: with
// its place there a caller makes way for the next. Allow does not stand in the
// queue, and neither do other processes: they may be served first. A store that
// takes a millisecond or more to answer is asked for several places in a leaky
// bucket at once, and may give them out in another order.
//
// A full bucket takes in nothing: where n is the whole capacity, the time by
// which a waiter is woken late is lost. A capacity of one unit more keeps the
// full rate, as does a leaky bucket.
func (l *Limiter) WaitN(ctx context.Context, key string, n int64) error {
	end, _ := ctx.Deadline()
	d, err := l.turn(ctx, key, n, end)
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
	return &Error{Code: CodeTimeout, Kind: "wait", Problem: "the wait of " + d.RetryAfter.String() + " would pass the deadline", Err: context.DeadlineExceeded}
}

// WaitWithin is WaitN for a caller that waits for at most maxWait and tells of
// denials: when maxWait is not long enough, it returns a Decision that is not
// Allowed, at once and without charging anything, whose RetryAfter is how long
// the wait would be. With a maxWait of 0 or less it does not wait, and does not
// stand in the queue.
func (l *Limiter) WaitWithin(ctx context.Context, key string, n int64, maxWait time.Duration) (Decision, error) {
	if maxWait <= 0 {
		return l.allowNow(ctx, key, n)
	}
	end := time.Now().Add(maxWait)
	deadline, ok := ctx.Deadline()
	sooner := ok && deadline.Before(end)
	if sooner {
		end = deadline
	}
	d, err := l.turn(ctx, key, n, end)
	if err == nil && !d.Allowed && sooner && d.RetryAfter <= maxWait && d.RetryAfter != Never {
		err = passesDeadline(&d)
	}
	return d, err
}

// allowNow is one try that takes no delay.
func (l *Limiter) allowNow(ctx context.Context, key string, n int64) (Decision, error) {
	if n < 1 {
		return Decision{}, refuseNothing()
	}
	return l.take(ctx, Claim{Key: key, Cost: n, MaxDelay: -1})
}

// turn returns when the key's turn has come, or a denial when it cannot come
// before end; the zero end never comes.
func (l *Limiter) turn(ctx context.Context, key string, n int64, end time.Time) (Decision, error) {
	if n < 1 {
		return Decision{}, refuseNothing()
	}
	if !l.made() {
		return Decision{}, errNotMade
	}
	if ctx.Err() != nil {
		return Decision{}, gaveUp(ctx, "waiting")
	}
	w := waiter{key: key, cost: n, end: end}
	for next := l.waiting.arrive(l, &w); ; {
		due, came := time.Now(), true
		switch next {
		case giveUp:
			return w.denial, nil
		case standBy:
			next, came = l.waiting.standBy(ctx, &w)
			if came {
				continue
			}
		case askLater:
			due = due.Add(max(w.denial.RetryAfter, leastPause))
			came = sleepUntil(ctx, due)
		}
		if !came {
			l.waiting.leave(&w)
			return Decision{}, gaveUp(ctx, "waiting")
		}
		asked := time.Now()
		d, wait, late, err := l.try(ctx, &w, due)
		switch {
		case err != nil:
			l.waiting.leave(&w)
			return d, err
		case d.Allowed:
			l.waiting.serve(l, &w, d.Remaining, time.Since(asked))
			return l.serveDelay(ctx, &w, d)
		}
		next = l.waiting.deny(l, &w, d, wait, late)
	}
}

// leastPause keeps a store that denies without a retry time from being asked
// all the time.
const leastPause = time.Microsecond

// try asks the store once, at a time that was due. wait is how long a request
// that was denied would wait until it is served, and late says that this is
// beyond its end.
func (l *Limiter) try(ctx context.Context, w *waiter, due time.Time) (d Decision, wait time.Duration, late bool, err error) {
	c, left := Claim{Key: w.key, Limit: l.limit, Cost: w.cost}, Never
	if !w.end.IsZero() {
		left = l.usable(time.Until(w.end))
		c.MaxDelay = left
		defer l.noteTime(due)
	}
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx) // the time was due before ctx ended
	}
	if !l.shapes {
		d, err = l.taker.Take(ctx, c)
		return d, d.RetryAfter, d.RetryAfter == Never || d.RetryAfter > left, err
	}
	each := make([]Decision, len(l.all.limits))
	_, d, err = l.all.takeEach(ctx, &c, each)
	wait = d.RetryAfter
	for i, limit := range l.all.limits {
		if limit.n.alg == LeakyBucket {
			wait = max(wait, each[i].ResetAfter) // a later place in the queue is served no sooner
		}
	}
	return d, wait, wait == Never || wait > left, err
}

// serveDelay returns when the delay of an allowed request is over. A caller
// that gives up before is refunded by the limits that take something back.
func (l *Limiter) serveDelay(ctx context.Context, w *waiter, d Decision) (Decision, error) {
	if d.Delay == 0 {
		return d, nil
	}
	due := time.Now().Add(d.Delay)
	late := !w.end.IsZero() && due.After(w.end) // the store took longer than lately
	if !late && sleepUntil(ctx, due) {
		return d, nil
	}
	if !d.Degraded {
		if _, err := l.taker.Take(context.WithoutCancel(ctx), l.refundClaim(w.key, w.cost, &d)); err != nil {
			return Decision{}, err
		}
	}
	if !late {
		return Decision{}, gaveUp(ctx, "waiting")
	}
	return Decision{Limit: d.Limit, RetryAfter: d.Delay, At: d.At}, nil
}

// sleepUntil returns at a time, or when ctx ends, and whether the time has
// come: it has when both are at once.
func sleepUntil(ctx context.Context, due time.Time) bool {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return !time.Now().Before(due)
	}
}
