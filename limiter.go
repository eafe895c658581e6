package stint

import (
	"context"
	"slices"
	"time"
)

// Limiter limits one kind of request: it joins a store with the limits that
// every request is counted under, as one atomic group. It is safe for use by
// many goroutines at once, and costs nothing to make. Make one with
// [NewLimiter].
type Limiter struct {
	taker taker // of a claim on limit: the store, or all
	limit Limit // the only one; else the zero Limit
	all   together
}

// NewLimiter returns a limiter of these limits over the store, which is not
// nil. A limiter without limits answers every call with an error.
func NewLimiter(store Store, limits ...Limit) *Limiter {
	l := &Limiter{all: together{store: store, limits: slices.Clone(limits)}}
	if len(limits) == 1 {
		l.taker, l.limit = store, limits[0]
	} else {
		l.taker = &l.all
	}
	return l
}

// Allow is shorthand for AllowN(ctx, key, 1).
func (l *Limiter) Allow(ctx context.Context, key string) (Decision, error) {
	return l.taker.Take(ctx, Claim{Key: key, Limit: l.limit, Cost: 1}) // no more: it is small enough to be inlined
}

// AllowN decides whether key may use n units now, and charges them if so.
// It does not wait: a denial says when to come back. n is at least 0; with 0
// it is Peek. The decision of several limits is their [Face].
func (l *Limiter) AllowN(ctx context.Context, key string, n int64) (Decision, error) {
	if n < 0 {
		return Decision{}, refuseNegative()
	}
	return l.taker.Take(ctx, Claim{Key: key, Limit: l.limit, Cost: n})
}

func refuseNegative() error {
	return invalid("cost: is below 0", "use Reserve, and give back by its Cancel")
}

// AllowEach is AllowN for callers that tell of every limit: it writes the
// decision of each into out, in the order of [Limiter.Limits] and of that
// length, and returns their [Face]. With room for more or fewer it is an error,
// and nothing is charged.
func (l *Limiter) AllowEach(ctx context.Context, key string, n int64, out []Decision) (face int, d Decision, err error) {
	if n < 0 {
		return -1, Decision{}, refuseNegative()
	}
	return l.all.takeEach(ctx, &Claim{Key: key, Cost: n}, out)
}

// Limits returns the limits that every request is counted under, in order.
func (l *Limiter) Limits() []Limit { return slices.Clone(l.all.limits) }

// Peek reports what key has left, and charges nothing.
func (l *Limiter) Peek(ctx context.Context, key string) (Decision, error) {
	return l.taker.Take(ctx, Claim{Key: key, Limit: l.limit})
}

// Reset forgets what key has used.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	_, err := l.taker.Take(ctx, Claim{Key: key, Limit: l.limit, Cost: Forget})
	return err
}

// Reservation is units that were charged for later use.
type Reservation struct {
	// Decision is how the request was decided. When it is not Allowed,
	// nothing was charged. Decision.Delay is how long to wait before acting.
	Decision Decision

	limiter *Limiter
	key     string
	n       int64
}

// Reserve takes n units for key, at least 1, and returns what was decided, for a caller
// that waits by itself or may change its mind.
func (l *Limiter) Reserve(ctx context.Context, key string, n int64) (Reservation, error) {
	if n < 1 {
		return Reservation{}, invalid("cost: is below 1", "reserve at least one unit")
	}
	d, err := l.taker.Take(ctx, Claim{Key: key, Limit: l.limit, Cost: n})
	return Reservation{Decision: d, limiter: l, key: key, n: n}, err
}

// Cancel gives the units back, as far as they have not refilled since. It
// does nothing when nothing was charged, nor when the decision was degraded:
// the store, should it answer again, never knew of it. A leaky bucket takes nothing back:
// the place in the queue has been handed out. Call it at most once.
func (r *Reservation) Cancel(ctx context.Context) error {
	if !r.Decision.Allowed || r.Decision.Degraded {
		return nil
	}
	l := r.limiter
	_, err := l.taker.Take(ctx, Claim{Key: r.key, Limit: l.limit, Cost: -r.n, At: r.Decision.At})
	return err
}

// Wait is shorthand for WaitN(ctx, key, 1).
func (l *Limiter) Wait(ctx context.Context, key string) error { return l.WaitN(ctx, key, 1) }

// WaitN blocks until key has been allowed n units, and for as long as a leaky
// bucket delays it. It fails at once, charging nothing, when the wait would
// never end or would pass the deadline of ctx (CodeTimeout, of the kind
// "wait"), and when ctx ends. Callers that wait for the same key are served in
// no particular order, but for those of a leaky bucket, which keeps a queue.
func (l *Limiter) WaitN(ctx context.Context, key string, n int64) error {
	if l.shapes() {
		if err := l.checkDeadline(ctx, key, n); err != nil {
			return err
		}
	}
	for {
		r, err := l.Reserve(ctx, key, n)
		if err != nil {
			return err
		}
		d := r.Decision
		err = sleep(ctx, d.RetryAfter+d.Delay)
		if d.Allowed || err != nil {
			return r.settle(ctx, err)
		}
	}
}

// settle gives back what a caller that gave up was charged.
func (r *Reservation) settle(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cancelErr := r.Cancel(context.WithoutCancel(ctx)); cancelErr != nil {
		return cancelErr
	}
	return err
}

func (l *Limiter) shapes() bool {
	for _, limit := range l.all.limits {
		if limit.Valid() && limit.Algorithm() == LeakyBucket {
			return true
		}
	}
	return false
}

// checkDeadline looks at the queue before joining it, because a place in it
// cannot be given back.
func (l *Limiter) checkDeadline(ctx context.Context, key string, n int64) error {
	if _, ok := ctx.Deadline(); !ok || n < 1 {
		return nil
	}
	d, err := l.Peek(ctx, key)
	if err != nil {
		return err
	}
	return canWait(ctx, d.Delay)
}

// canWait says why ctx does not let its caller wait so long.
func canWait(ctx context.Context, wait time.Duration) error {
	if err := ctx.Err(); err != nil {
		return &Error{Code: CodeCanceled, Problem: "gave up waiting", Err: err}
	}
	if wait == Never {
		return invalid("cost: is greater than the limit, so no wait is long enough", "ask for less at once")
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
		return &Error{Code: CodeTimeout, Kind: "wait", Problem: "the wait of " + wait.String() + " would pass the deadline", Err: context.DeadlineExceeded}
	}
	return nil
}

// sleep waits, or says why it did not.
func sleep(ctx context.Context, wait time.Duration) error {
	if err := canWait(ctx, wait); err != nil || wait == 0 {
		return err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return &Error{Code: CodeCanceled, Problem: "gave up waiting", Err: ctx.Err()}
	}
}
