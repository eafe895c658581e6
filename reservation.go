package stint

import (
	"context"
	"errors"
)

// Reservation is units that were charged for later use. Its copies stand for
// the same units.
type Reservation struct {
	// Decision is how the request was decided. When it is not Allowed,
	// nothing was charged. Decision.Delay is how long to wait before acting.
	Decision Decision

	refund *refund // nil when there is nothing to give back
}

// refund is what gives the units of a reservation back, once.
type refund struct {
	limiter *Limiter
	claim   Claim
	turn    chan struct{} // holds one while nobody gives back
	sent    bool          // in one's turn: the store may have got it
}

// Reserve takes n units for key, at least 1, and returns what was decided, for a caller
// that waits by itself or may change its mind.
func (l *Limiter) Reserve(ctx context.Context, key string, n int64) (Reservation, error) {
	if n < 1 {
		return Reservation{}, refuseNothing()
	}
	d, err := l.take(ctx, Claim{Key: key, Cost: n})
	r := Reservation{Decision: d}
	if err == nil && d.Allowed && !d.Degraded {
		r.refund = &refund{limiter: l, claim: l.refundClaim(key, n, &d), turn: make(chan struct{}, 1)}
		r.refund.turn <- struct{}{}
	}
	return r, err
}

func refuseNothing() error { return invalid("cost: is below 1", "reserve at least one unit") }

// refundClaim is the claim that returns what an allowed one was charged.
func (l *Limiter) refundClaim(key string, n int64, d *Decision) Claim {
	return Claim{Key: key, Limit: l.limit, Cost: -n, At: d.At}
}

// Cancel gives the units back, as far as they have not refilled since. It
// does nothing when nothing was charged, nor when the decision was degraded:
// the store, should it answer again, never knew of it. A leaky bucket takes
// nothing back: the place in the queue has been handed out.
//
// The units go back once, however often Cancel is called on the Reservation
// and its copies. A call that failed can be repeated when its refund has
// surely changed nothing: when ctx had ended before it was sent, or the error
// has CodeInvalid. After every other error the outcome is unknown, and further
// calls do nothing: the units may be in use by others.
func (r *Reservation) Cancel(ctx context.Context) error {
	if r.refund == nil {
		return nil
	}
	return r.refund.give(ctx)
}

// give gives back in turn: a call that comes while another is under way waits
// for its outcome.
func (r *refund) give(ctx context.Context) error {
	select {
	case <-r.turn:
	case <-ctx.Done():
		return gaveUp(ctx, "before the units were given back")
	}
	defer func() { r.turn <- struct{}{} }()
	switch {
	case r.sent:
		return nil
	case ctx.Err() != nil:
		return gaveUp(ctx, "before the units were given back")
	}
	r.sent = true // also should the store panic
	_, err := r.limiter.taker.Take(ctx, r.claim)
	r.sent = !neverSent(err)
	return err
}

// neverSent reports whether the call that failed so has surely changed
// nothing.
func neverSent(err error) bool {
	coded, ok := errors.AsType[*Error](err)
	return ok && coded.Code == CodeInvalid
}

func gaveUp(ctx context.Context, when string) error {
	return &Error{Code: CodeCanceled, Problem: "gave up " + when, Err: ctx.Err()}
}
