package storekit

import (
	"math/bits"

	"github.com/stintdev/stint"
)

// lastMicros is the end of time of a claim, in the year 2255.
const lastMicros = 1<<53 - 1

// RefundOf returns the claim that refunds a charge, and false if there is none: the claim
// was denied or is itself a refund, or nothing was charged. It is for a store that cannot
// charge all claims of a group in one atomic step, and that refunds those it has charged
// when another is denied. Leaky buckets ignore refunds, so such a store asks them first.
func RefundOf(c stint.Claim, charged *stint.Decision) (refund stint.Claim, ok bool) {
	if !charged.Allowed || c.Cost < 0 || c.Cost+charged.Granted == 0 {
		return c, false
	}
	c.Cost, c.Extra, c.At = -c.Cost-charged.Granted, 0, refilledFrom(&c, charged)
	return c, true
}

// refilledFrom returns the time At of a refund. A refund does not restore what the
// bucket would have refilled since At.
//
// For a bucket At is the moment when it would have been full without the charge:
// until then the bucket refills with the charge just as without it. If At were the
// time of the charge, each refund would lose up to a micro-unit for good, and
// thousands of denials a second would use up a slow limit. Rounding makes At a little
// too early rather than too late. For other algorithms At is the time of the charge.
func refilledFrom(c *stint.Claim, charged *stint.Decision) int64 {
	n := c.Limit.Numbers()
	if n.P == 0 { // not a bucket
		return charged.At
	}
	full := charged.ResetAfter.Microseconds() - 1 - refillTime(n, c.Cost+charged.Granted)
	return min(charged.At+max(0, full), lastMicros)
}

// refillTime returns how long a bucket takes to refill units, in µs, rounded up. units
// is at most the bucket's capacity.
func refillTime(n stint.Numbers, units int64) int64 {
	hi, lo := bits.Mul64(uint64(units)*1_000_000, uint64(n.Q))
	p := uint64(n.P)
	lo, carry := bits.Add64(lo, p-1, 0)
	t, _ := bits.Div64(hi+carry, lo, p) // below Fill, so that it fits
	return int64(t)
}
