package stint

import (
	"context"
	"errors"
	"slices"
)

// Reservation stands for units that were charged for later use. All copies of
// a Reservation stand for the same units, and may be used by many goroutines at
// once. A nil or zero Reservation stands for no units.
type Reservation struct {
	// Decision is how the request was decided. When it is not Allowed,
	// nothing was charged. Decision.Delay is how long to wait before acting.
	Decision Decision

	refund *refund // nil when there is nothing to refund
}

// refund returns the units of a reservation to the store, at most once.
type refund struct {
	limiter *Limiter
	claim   Claim
	keys    []string      // of a joint request; nil: the claim has the only key
	turn    chan struct{} // a lock that a context can interrupt: holds a token while free
	sent    bool          // guarded by turn; the store may have received the refund
}

// Reserve takes n units for key and returns the decision as a Reservation. It
// is for a caller that waits by itself or may cancel. n is at least 1.
func (l *Limiter) Reserve(ctx context.Context, key string, n int64) (Reservation, error) {
	if n < 1 {
		return Reservation{}, refuseNothing()
	}
	d, err := l.take(ctx, Claim{Key: key, Cost: n})
	return l.reserved(d, err, key, nil, n)
}

// reserved returns the reservation of n units that were decided as given.
func (l *Limiter) reserved(d Decision, err error, key string, keys []string, n int64) (Reservation, error) {
	r := Reservation{Decision: d}
	if err == nil && d.Allowed && !d.Degraded {
		r.refund = &refund{limiter: l, claim: refundClaim(key, n, &d), keys: slices.Clone(keys), turn: make(chan struct{}, 1)}
		r.refund.turn <- struct{}{}
	}
	return r, err
}

func refuseNothing() error { return invalid("cost: is below 1", "reserve at least one unit") }

// refundClaim returns the claim that refunds n units of an allowed decision.
func refundClaim(key string, n int64, d *Decision) Claim {
	return Claim{Key: key, Cost: -n, At: d.At}
}

// Cancel refunds the units that have not refilled since they were taken. It
// does nothing when nothing was charged, and when the decision was degraded,
// because the store never recorded that charge. A leaky bucket accepts no
// refund: the place in its queue has been handed out.
//
// The units are refunded at most once, however often Cancel is called on the
// Reservation and its copies. A failed call can be repeated when its refund
// certainly changed nothing: ctx ended before the refund was sent, or the error
// has CodeInvalid. After any other error the outcome is unknown, and further
// calls do nothing, because a second refund could return units that others
// already use.
func (r *Reservation) Cancel(ctx context.Context) error {
	if r == nil || r.refund == nil {
		return nil
	}
	return r.refund.give(ctx)
}

// give sends the refund. A call during another call waits for the outcome of
// that call.
func (r *refund) give(ctx context.Context) error {
	select {
	case <-r.turn:
	case <-ctx.Done():
		return gaveUp(ctx, "before the refund was sent")
	}
	defer func() { r.turn <- struct{}{} }()
	switch {
	case r.sent:
		return nil
	case ctx.Err() != nil:
		return gaveUp(ctx, "before the refund was sent")
	}
	r.sent = true // before the call, so that it also holds if the store panics
	_, err := r.limiter.takeKeys(ctx, r.claim, r.keys)
	r.sent = !neverSent(err)
	return err
}

// neverSent reports whether a call with this error certainly changed nothing.
func neverSent(err error) bool {
	coded, ok := errors.AsType[*Error](err)
	return ok && coded.Code == CodeInvalid
}

func gaveUp(ctx context.Context, when string) error {
	return &Error{Code: CodeCanceled, Problem: "gave up " + when, Err: ctx.Err()}
}
