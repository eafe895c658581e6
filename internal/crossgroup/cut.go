// Package crossgroup helps to decide a group of claims that lie in several places, such as
// slots of a Redis Cluster or stores, none of which can decide the group in one atomic step.
//
// The group is cut into units, each of which lies in one place and is decided there
// atomically. The caller decides the units in its own way. If one of them denies the group, the
// caller refunds what the others have charged. Until then, for up to one round trip, other
// callers see the temporary charges. Those may deny other callers but never let them exceed
// their limit.
//
// Some claims cannot be refunded: claims on leaky buckets, and refunds. A caller asks the
// units that have such claims before it charges anything (see [Returnable]).
package crossgroup

import (
	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// Cut is one group, cut into units. Make it by [New].
type Cut struct {
	Claims  []stint.Claim    // those of the group
	Answers []stint.Decision // of Claims

	Units []stint.Group    // the group's claims, by place
	Out   []stint.Decision // of the claims of the units, in order
	Errs  []error          // of each unit; nil if all units are decided

	from      []int  // for each claim of the units, in order: its index in Claims
	firsts    []int  // for each unit: the index of its first claim in from and Out
	scattered []bool // for each unit: it is one claim of a set of alternatives in several places
}

// New cuts a group. places has the place of each claim. The claims of one place form a
// unit. If a set of alternatives spans several places, each of its claims is a unit of its
// own, because a denial of one alternative must not deny the rest of a unit.
func New(claims []stint.Claim, answers []stint.Decision, places []int) *Cut {
	c := &Cut{Claims: claims, Answers: answers, Out: make([]stint.Decision, len(claims))}
	cut := make([]bool, len(claims))
	for i := range claims {
		if cut[i] {
			continue
		}
		c.firsts = append(c.firsts, len(c.from))
		unit := stint.Group{}
		for j := i; j < len(claims); j++ {
			if j == i || !cut[j] && places[j] == places[i] && !scattered(claims, places, i) && !scattered(claims, places, j) {
				unit.Claims = append(unit.Claims, claims[j])
				c.from, cut[j] = append(c.from, j), true
			}
		}
		c.Units = append(c.Units, unit)
		c.scattered = append(c.scattered, scattered(claims, places, i))
	}
	return c
}

// scattered reports whether a claim belongs to a set of alternatives that spans several
// places.
func scattered(claims []stint.Claim, places []int, i int) bool {
	for j := range claims {
		if claims[i].AnyOf > 0 && claims[j].AnyOf == claims[i].AnyOf && places[j] != places[i] {
			return true
		}
	}
	return false
}

// Scattered reports whether a unit is one claim of a set of alternatives in several places. A
// denial of such a unit does not deny the group.
func (c *Cut) Scattered(unit int) bool { return c.scattered[unit] }

// OutOf returns the decisions of a unit.
func (c *Cut) OutOf(unit int) []stint.Decision {
	first := c.firsts[unit]
	return c.Out[first : first+len(c.Units[unit].Claims)]
}

// PlacesOf returns, for each claim of a unit, its index in the group.
func (c *Cut) PlacesOf(unit int) []int {
	first := c.firsts[unit]
	return c.from[first : first+len(c.Units[unit].Claims)]
}

// Returnable reports whether the charges of all these claims can be refunded.
func Returnable(claims []stint.Claim) bool {
	for i := range claims {
		c := &claims[i]
		charges := c.Cost > 0 || c.Extra > 0
		if c.Cost < 0 || charges && c.Limit.Algorithm() == stint.LeakyBucket {
			return false
		}
	}
	return true
}

// Gather copies the decisions of the units to Answers.
func (c *Cut) Gather() {
	for i, at := range c.from {
		c.Answers[at] = c.Out[i]
	}
}

// Admitted reports whether Answers admit the group.
func (c *Cut) Admitted() bool {
	_, binding := stint.Combine(c.Claims, c.Answers)
	return binding.Allowed
}

// Charged returns the refunds for a unit, one group for each claim that was charged, and the
// index of each of these claims in the group. There are none for a unit that was denied or
// has an error, nor for a claim that was decided without its store.
func (c *Cut) Charged(unit int) (refunds []stint.Group, from []int) {
	claims, out, places := c.Units[unit].Claims, c.OutOf(unit), c.PlacesOf(unit)
	if _, binding := stint.Combine(claims, out); !binding.Allowed || c.Errs != nil && c.Errs[unit] != nil {
		return nil, nil
	}
	for i := range claims {
		if refund, charged := storekit.RefundOf(claims[i], &out[i]); charged && !out[i].Degraded {
			refunds, from = append(refunds, stint.Group{Claims: []stint.Claim{refund}}), append(from, places[i])
		}
	}
	return refunds, from
}

// Refunded updates the answers of claims by the decisions of their refunds. from has the
// index of each claim in the group. A decision that is not allowed stands for a refund that
// failed: the charge stays.
func (c *Cut) Refunded(from []int, refunds []stint.Decision) {
	for i, at := range from {
		if d, r := &c.Answers[at], &refunds[i]; r.Allowed {
			d.Remaining, d.ResetAfter, d.NextAfter = r.Remaining, r.ResetAfter, r.NextAfter
			d.Granted, d.Delay = 0, 0
		}
	}
}
