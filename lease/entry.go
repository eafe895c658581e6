package lease

import (
	"slices"
	"time"

	"github.com/stintdev/stint"
)

// Times in this package are microseconds of the node's own [clock], unless they
// are called a store's.

// entry is what a node knows of one hot key under one limit, and what it holds.
// Its shard's lock guards it.
type entry struct {
	claim       stint.Claim // what a renewal asks for, but for Extra
	size        *size
	demand      demand
	grants      []grant // oldest first
	last        answer
	deniedUntil memory

	asking chan struct{} // closed when the call in flight has answered; nil: there is none
	queued bool          // for a renewal
	place  int           // in its shard's list; gone: it is no longer looked after
}

// gone is the place of an entry that asks for nothing more: nobody would give
// back what came.
const gone = -1

// grant is what is left of one lease.
type grant struct {
	left  int64
	at    int64 // when it was charged, by the store's clock
	until int64
}

// answer is what the store said last.
type answer struct {
	stint.Decision

	received int64
}

// memory is that the store would deny.
type memory struct {
	cost  int64 // so much and more
	until int64 // the store is asked again from then on
	retry int64 // when the store said that it would allow it
}

// inHand is how much could be spent now.
func (e *entry) inHand(now int64) (left int64) {
	for i := range e.grants {
		if now < e.grants[i].until {
			left += e.grants[i].left
		}
	}
	return left
}

// spend takes the cost from one grant. A grant is used up before a newer one.
func (e *entry) spend(cost, now int64) *grant {
	for i := range e.grants {
		if g := &e.grants[i]; now < g.until && g.left >= cost {
			g.left -= cost
			return g
		}
	}
	return nil
}

// refund puts back what [entry.spend] took. It reports false when the rest of
// that grant has gone back to the store meanwhile. Where the store's time ran
// back, grants of one time may end at several.
func (e *entry) refund(cost int64, from grant) bool {
	for i := range e.grants {
		if g := &e.grants[i]; g.at == from.at && g.until == from.until {
			g.left += cost
			return true
		}
	}
	return false
}

// add keeps a new grant, and none that is used up.
func (e *entry) add(g grant) {
	e.grants = append(slices.DeleteFunc(e.grants, func(old grant) bool { return old.left == 0 }), g)
}

// allowed is the decision of a claim that was spent from a grant: as of when
// that was charged, so that times that count from there are the store's.
func (e *entry) allowed(g *grant, now int64) stint.Decision {
	ahead := time.Duration(e.last.At-g.at) * time.Microsecond
	return stint.Decision{
		Allowed: true, Limit: e.last.Limit, At: g.at,
		Remaining:  min(e.last.Limit, e.last.Remaining+e.inHand(now)),
		ResetAfter: max(0, e.last.ResetAfter+ahead), NextAfter: max(0, e.last.NextAfter+ahead),
	}
}

// remembers reports whether the store would deny a cost, as far as is known. A
// cost that can never be allowed is for the store to say.
func (e *entry) remembers(cost, now int64) bool {
	return now < e.deniedUntil.until && cost >= e.deniedUntil.cost && cost <= e.size.limit
}

// denied is the decision of a claim that the node remembers to be denied.
func (e *entry) denied(now int64) stint.Decision {
	passed := now - e.last.received
	since := time.Duration(passed) * time.Microsecond
	return stint.Decision{
		Limit: e.last.Limit, Remaining: min(e.last.Remaining, e.deniedUntil.cost-1), At: e.last.At + passed,
		RetryAfter: time.Duration(max(e.deniedUntil.until, e.deniedUntil.retry)-now) * time.Microsecond,
		ResetAfter: max(0, e.last.ResetAfter-since), NextAfter: max(0, e.last.NextAfter-since),
	}
}

// decide answers a claim by what the node knows and holds, if that is enough.
// It returns the grant that was spent from, if one was.
func (e *entry) decide(cost, now int64) (d stint.Decision, from *grant, ok bool) {
	if g := e.spend(cost, now); g != nil {
		return e.allowed(g, now), g, true
	}
	if e.remembers(cost, now) {
		return e.denied(now), nil, true
	}
	return d, nil, false
}

// learn keeps what the store said to a call that was sent at that time.
func (e *entry) learn(d *stint.Decision, cost, extra, sent, received int64) {
	if d.Degraded {
		return
	}
	e.last = answer{*d, received}
	if d.Granted > 0 {
		e.add(grant{left: d.Granted, at: d.At, until: sent + e.size.lasts(d)})
	}
	switch {
	case !d.Allowed:
		e.remember(cost, d.RetryAfter, received)
	case extra > d.Granted && d.Remaining == 0:
		e.remember(1, d.NextAfter, received)
	}
}

func (e *entry) remember(cost int64, retry time.Duration, received int64) {
	if retry == stint.Never {
		return
	}
	wait := retry.Microseconds()
	e.deniedUntil = memory{cost: cost, retry: received + wait, until: received + e.size.remembered(wait)}
}
