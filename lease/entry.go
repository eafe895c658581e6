package lease

import (
	"slices"
	"time"

	"github.com/stintdev/stint"
)

// Times in this package are microseconds of the node's own [clock]. A comment names
// each time that is by the store's clock.

// entry is the state of one hot key under one limit: its leases, its demand and the
// store's last answer. The lock of its shard guards it.
type entry struct {
	claim  stint.Claim // the claim of a renewal, without Extra
	size   *size
	demand demand
	grants []grant // oldest first
	last   answer
	cached denial

	inFlight chan struct{} // closed when the call in flight is answered; nil if there is none
	queued   bool          // waits for a renewal
	place    int           // index in the shard's list, or removed
}

// removed is the place of an entry that was removed from its shard, or whose Store is
// closed. Such an entry asks for nothing more, because fetched tokens would be
// stranded.
const removed = -1

// grant is the remainder of one lease.
type grant struct {
	left  int64
	at    int64 // when the store charged it, by the store's clock
	until int64
}

// answer is the store's last decision.
type answer struct {
	stint.Decision

	received int64
}

// denial is the cached denial of a key: its entry in the deny cache.
type denial struct {
	cost  int64 // the least cost that is denied
	until int64 // when the node asks the store again
	retry int64 // when the store would allow the cost, by its answer
}

// inHand returns how many tokens can be spent now.
func (e *entry) inHand(now int64) (left int64) {
	for i := range e.grants {
		if now < e.grants[i].until {
			left += e.grants[i].left
		}
	}
	return left
}

// spend takes the cost from the oldest grant that has enough, and returns that grant.
// It returns nil if no single grant has enough.
func (e *entry) spend(cost, now int64) *grant {
	for i := range e.grants {
		if g := &e.grants[i]; now < g.until && g.left >= cost {
			g.left -= cost
			return g
		}
	}
	return nil
}

// refund puts back what [entry.spend] took. It returns false if the rest of that grant
// has been refunded to the store meanwhile. It compares the end too, because grants
// with the same charge time may end at different times if the store's clock ran back.
func (e *entry) refund(cost int64, from grant) bool {
	for i := range e.grants {
		if g := &e.grants[i]; g.at == from.at && g.until == from.until {
			g.left += cost
			return true
		}
	}
	return false
}

// add appends a new grant and removes those that are used up.
func (e *entry) add(g grant) {
	e.grants = append(slices.DeleteFunc(e.grants, func(old grant) bool { return old.left == 0 }), g)
}

// allowed returns the decision of a claim that was spent from a grant. At is the time
// of the grant's charge, and the other times count from At, as the store's do.
func (e *entry) allowed(g *grant, now int64) stint.Decision {
	ahead := time.Duration(e.last.At-g.at) * time.Microsecond
	return stint.Decision{
		Allowed: true, Limit: e.last.Limit, At: g.at,
		Remaining:  min(e.last.Limit, e.last.Remaining+e.inHand(now)),
		ResetAfter: max(0, e.last.ResetAfter+ahead), NextAfter: max(0, e.last.NextAfter+ahead),
	}
}

// denies reports whether the deny cache denies a cost. A cost above the limit can
// never be allowed; the store answers that.
func (e *entry) denies(cost, now int64) bool {
	return now < e.cached.until && cost >= e.cached.cost && cost <= e.size.limit
}

// denied returns the decision of a claim that the deny cache denies.
func (e *entry) denied(now int64) stint.Decision {
	passed := now - e.last.received
	since := time.Duration(passed) * time.Microsecond
	return stint.Decision{
		Limit: e.last.Limit, Remaining: min(e.last.Remaining, e.cached.cost-1), At: e.last.At + passed,
		RetryAfter: time.Duration(max(e.cached.until, e.cached.retry)-now) * time.Microsecond,
		ResetAfter: max(0, e.last.ResetAfter-since), NextAfter: max(0, e.last.NextAfter-since),
	}
}

// decide answers a claim from the grants or the deny cache. It returns false if neither
// can. from is the grant that was spent from, or nil.
func (e *entry) decide(cost, now int64) (d stint.Decision, from *grant, ok bool) {
	if g := e.spend(cost, now); g != nil {
		return e.allowed(g, now), g, true
	}
	if e.denies(cost, now) {
		return e.denied(now), nil, true
	}
	return d, nil, false
}

// learn stores the store's decision on a call: its grant, and its denial if it is one.
func (e *entry) learn(d *stint.Decision, cost, extra, sent, received int64) {
	if d.Degraded {
		return
	}
	e.last = answer{*d, received}
	if d.Granted > 0 {
		e.add(grant{left: d.Granted, at: d.At, until: sent + e.size.leaseLife(d)})
	}
	switch {
	case !d.Allowed:
		e.cacheDenial(cost, d.RetryAfter, received)
	case extra > d.Granted && d.Remaining == 0:
		e.cacheDenial(1, d.NextAfter, received)
	}
}

func (e *entry) cacheDenial(cost int64, retry time.Duration, received int64) {
	if retry == stint.Never {
		return
	}
	wait := retry.Microseconds()
	e.cached = denial{cost: cost, retry: received + wait, until: received + e.size.denialLife(wait)}
}
