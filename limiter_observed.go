package stint

import (
	"context"
	"errors"
	"time"
)

// observed does the operations of a limiter that has an observer. plain is the same
// limiter without one, and each operation runs there. The attempts and the refunds of a
// wait are therefore not reported one by one, and a limiter without an observer does no
// work for observers.
type observed struct {
	observer Observer
	plain    *Limiter
}

// WithObserver returns a limiter that reports every decision to the observer, as an
// [EventDecision]. It replaces an observer that the limiter has; [Observers] combines
// several. With a nil observer nothing is reported.
//
// The copy shares the name, the state and the queues of the limiter. To also see the
// calls to the store, use [ObserveStore] or the options of the store.
func (l *Limiter) WithObserver(o Observer) *Limiter {
	if !l.made() {
		return l
	}
	unchanged := func(*Limiter) {}
	c := l.plainWith(unchanged)
	if o = Observers(o); o != nil {
		c.observe(o, l.plainWith(unchanged))
	}
	return c
}

// observe sets the observer of a new limiter. plain is the same limiter without one.
func (l *Limiter) observe(o Observer, plain *Limiter) {
	l.observed = &observed{o, plain}
	l.taker = l.observed
}

// Take is [Limiter.take].
func (o *observed) Take(ctx context.Context, c Claim) (Decision, error) {
	return o.takeKeys(ctx, c, nil)
}

func (o *observed) takeKeys(ctx context.Context, c Claim, keys []string) (d Decision, err error) {
	op, ctx := o.start(ctx, opOf(c.Cost), c.Cost)
	binding := 0
	if keys == nil && len(o.plain.all.claims) == 1 {
		d, err = o.plain.take(ctx, c)
	} else {
		binding, d, err = o.plain.all.takeBinding(ctx, &c, keys)
	}
	op.end(ctx, binding, &d, err)
	return d, err
}

func (o *observed) allowEach(ctx context.Context, c Claim, keys []string, maxDelay time.Duration, out []Decision) (binding int, d Decision, err error) {
	op, ctx := o.start(ctx, opOf(c.Cost), c.Cost)
	binding, d, err = o.plain.allowEach(ctx, c, keys, maxDelay, out)
	op.end(ctx, binding, &d, err)
	return binding, d, err
}

func (o *observed) turn(ctx context.Context, w *waiter) (Decision, error) {
	op, ctx := o.start(ctx, "wait", w.cost)
	d, err := o.plain.turn(ctx, w)
	binding := -1
	if len(o.plain.all.claims) == 1 {
		binding = 0
	}
	op.end(ctx, binding, &d, err)
	return d, err
}

// operation is one operation of an observed limiter.
type operation struct {
	*observed

	event Event
	start time.Time
}

func (o *observed) start(ctx context.Context, op string, cost int64) (*operation, context.Context) {
	p := &operation{observed: o, event: Event{Kind: EventDecision, Name: o.plain.name, Op: op, Cost: max(cost, -cost)}}
	if cost == Forget {
		p.event.Cost = 0
	}
	ctx = o.observer.Start(ctx, p.event)
	p.start = o.plain.now()
	return p, ctx
}

// end reports the decision. binding is the index of the claim that bound it; −1 if that
// is not known.
func (p *operation) end(ctx context.Context, binding int, d *Decision, err error) {
	e := &p.event
	e.Took, e.Err, e.Decision = p.plain.now().Sub(p.start), err, *d
	switch {
	case err != nil:
		e.Result, e.Decision = kindOf(err), Decision{}
	case binding >= 0:
		e.Limit = p.plain.all.claims[binding].Limit
		fallthrough
	default:
		e.Result = resultOf(d)
	}
	p.observer.Observe(ctx, *e)
}

// opOf returns the name of the operation that takes a claim of this cost.
func opOf(cost int64) string {
	switch {
	case cost > 0:
		return "take"
	case cost == 0:
		return "peek"
	case cost == Forget:
		return "reset"
	}
	return "refund"
}

func resultOf(d *Decision) string {
	switch {
	case d.Unavailable:
		return "unavailable"
	case d.Degraded && d.Allowed:
		return "degraded_allowed"
	case d.Degraded:
		return "degraded_denied"
	case d.Allowed:
		return "allowed"
	}
	return "denied"
}

// kindOf returns the kind of an error, or of the first error of a [*GroupsError].
func kindOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.KindName()
	}
	return CodeOf(err).String()
}
