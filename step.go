package stint

import "time"

// A step is the pure function (state, limit, now, cost) → (state, decision).
// It has two halves, so that a store holds its lock during the first half only.
// step and stepWide decide whether a claim is allowed and compute the next
// state. decide computes the times of the answer. Structs of more than a few
// words are passed by pointer, because copying a struct just written stalls the
// processor for longer than the arithmetic takes.

// packed is the packed state of a narrow limit. Every algorithm is narrow but
// the log and the counter of many buckets, whose state is a slice.
type packed struct{ Hi, Lo uint64 }

// input holds the fields of a claim and the time, for a step. With dry set the
// step decides but charges nothing.
type input struct {
	now, cost, extra, at int64
	maxDelay             time.Duration
	dry                  bool
}

// asInput writes the claim into the input of a step, whose field dry is already set. A refund
// has no Extra, and a dry Forget is a peek.
func (c *Claim) asInput(a *input, now int64) {
	a.now, a.cost, a.extra, a.at, a.maxDelay = now, c.Cost, c.Extra, c.At, c.MaxDelay
	if c.Cost < 0 {
		a.extra = 0
	}
	if c.Cost == Forget && a.dry {
		a.cost = 0
	}
}

// takenAt returns when the units of a refund were taken. It defaults to now.
func takenAt(a *input, now int64) int64 {
	if a.at == 0 {
		return now
	}
	return a.at
}

// result holds the results of a step. The caller passes it zeroed. The durations
// retry, reset and next count from result.now.
type result struct {
	allowed bool
	write   bool  // the state changed
	forget  bool  // the state equals a fresh one: drop it
	now     int64 // the step's own time: max(input.now, the newest time in the state)
	granted int64

	whole, frac int64 // a bucket's tokens, or a leaky bucket's level, afterwards
	ahead       int64 // the level ahead of the claim in a leaky bucket, whole micro-units
	aheadFrac   int64 // and its fraction

	remaining, retry, reset, next int64 // set by the windows, counters, logs and quotas
}

// step decides one claim on a narrow limit. from is the limit that the state was
// written under, or nil when there is no state. It differs from n after a change
// of the limit.
func (n *compiledLimit) step(c packed, from *compiledLimit, a *input, r *result) packed {
	if a.cost == Forget {
		n.forgotten(a, r)
		return packed{}
	}
	switch n.alg {
	case TokenBucket, GCRA, LeakyBucket:
		return n.stepBucket(c, from, a, r)
	case SlidingWindowCounter:
		return n.stepTwoCounters(c, from != nil, a, r)
	default:
		return n.stepWindow(c, from != nil, a, r)
	}
}

// stepWide decides one claim on a wide limit. It works in place and allocates
// nothing: w must have the capacity that wideRoom returns.
func (n *compiledLimit) stepWide(w []int64, a *input, r *result) []int64 {
	switch {
	case a.cost == Forget:
		n.forgotten(a, r)
		return w[:0]
	case n.alg == SlidingWindowLog:
		return n.stepLog(w, a, r)
	default:
		return n.stepCounters(w, a, r)
	}
}

// wideRoom returns the capacity that stepWide needs for a state of have words.
func (n *compiledLimit) wideRoom(have int, a *input) int {
	if n.alg == SlidingWindowCounter {
		return n.buckets + 2
	}
	if a.cost+a.extra <= 0 {
		return have
	}
	return min(have+runWords, max(have, n.logRoom()))
}

// forgotten sets the result of a reset: the key is as if never used.
func (n *compiledLimit) forgotten(a *input, r *result) {
	r.allowed, r.write, r.forget = true, true, true
	r.now, r.remaining = a.now, n.max
	if n.alg == TokenBucket || n.alg == GCRA {
		r.whole = n.full
	}
}

// decide writes the answer into d, which must be zero. It needs no lock.
func (n *compiledLimit) decide(d *Decision, r *result, a *input) {
	d.Allowed, d.Limit, d.Granted, d.At = r.allowed, n.max, r.granted, r.now
	gap := r.now - a.now
	switch n.alg {
	case TokenBucket, GCRA:
		n.reportBucket(d, r, a.cost, gap)
	case LeakyBucket:
		n.reportLeaky(d, r, a, gap)
	default:
		n.reportCount(d, r, a.cost, gap)
	}
}

// reportCount reports the results of an algorithm that counts. Its step has
// already computed them.
func (n *compiledLimit) reportCount(d *Decision, r *result, cost, gap int64) {
	d.Remaining = r.remaining
	if r.reset > 0 {
		d.ResetAfter = micros(gap + r.reset)
	}
	if r.next > 0 {
		d.NextAfter = micros(gap + r.next)
	}
	if !r.allowed {
		d.RetryAfter = n.retryAfter(cost, gap+r.retry)
	}
}

// retryAfter converts a wait, and returns Never for a cost above the limit.
func (n *compiledLimit) retryAfter(cost, wait int64) time.Duration {
	if cost > n.max {
		return Never
	}
	return micros(wait)
}

// idle reports whether the state of a narrow limit equals a fresh one at now.
func (n *compiledLimit) idle(c packed, now int64) bool {
	switch n.alg {
	case TokenBucket, GCRA:
		return n.refill(n.unpack(c), now).whole == n.full
	case LeakyBucket:
		b := n.drain(n.unpack(c), now)
		return b.whole == 0 && b.frac == 0
	case SlidingWindowCounter:
		return now >= (int64(c.Hi)+2)*n.width
	default:
		start, _ := n.period(now)
		return start > int64(c.Hi)
	}
}

// idleWide is idle for a wide limit.
func (n *compiledLimit) idleWide(w []int64, now int64) bool {
	switch {
	case len(w) == 0:
		return true
	case n.alg == SlidingWindowLog:
		return now >= newestRun(w)+n.window
	default:
		return now >= (w[0]+int64(n.buckets)+1)*n.width
	}
}

// leftWhole is the value of left for a full allowance.
const leftWhole = 1 << 16

// left returns the part of a narrow limit that remains, from 0 (exhausted) to
// leftWhole. A full table compares states by it to choose the one to evict.
func (n *compiledLimit) left(c packed, now int64) int64 {
	var r result
	var d Decision
	a := input{now: now}
	n.step(c, n, &a, &r)
	n.decide(&d, &r, &a)
	return n.share(d.Remaining)
}

// leftWide is left for a wide limit.
func (n *compiledLimit) leftWide(w []int64, now int64) int64 {
	var r result
	n.stepWide(w, &input{now: now}, &r)
	return n.share(r.remaining)
}

func (n *compiledLimit) share(remaining int64) int64 {
	if remaining == 0 {
		return 0
	}
	return max(1, remaining*leftWhole/n.max)
}
