package redisstore

import (
	"context"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// A group with keys in several slots of a Cluster cannot be one script call. The
// store charges its claims slot by slot, in parallel, and refunds them if one slot
// denies the group. For up to one round trip, until the refund, other callers see
// the temporary charges. Those may deny other callers but never let them exceed
// their limit. A charged key loses what it would have refilled in that time. A
// charge stays if its outcome, or the outcome of its refund, is unknown.
//
// Some claims cannot be refunded: claims on leaky buckets, and refunds. A group with
// such a claim is first decided dry, in a round trip of its own. If that denies the
// group, nothing was charged. Such a claim stays charged only if another caller took
// the rest between the dry run and the charge.

// crossSlot is one group in several slots, cut into units that are in one slot each.
type crossSlot struct {
	store   *Store
	claims  []stint.Claim
	answers []stint.Decision // one per claim
	units   []stint.Group
	from    []int // for each claim of the units, in order: its index in the group
	out     []stint.Decision
	errs    []error // error of each unit; nil when all were decided

	once      *onceCall // the call of the group if it may be repeated
	scattered []bool    // for each unit: it is one claim of a set of alternatives in several slots
}

// crossSlot decides one part of a group and reports whether it was admitted. once is its
// call if it may be repeated.
func (p *plan) crossSlot(a groupToSend, at place, once *onceCall) bool {
	p.flush()
	s := p.store.newCrossSlot(a.claims, p.out[at.first:at.first+len(a.claims)])
	s.once = once
	if a.replicas == 0 {
		s.waitForNoReplica()
	}
	if err := s.decide(p.ctx, a.flags == dryGroup); err != nil {
		clear(s.answers)
		p.errs.Set(at.part, p.groups, err)
		return false
	}
	if once != nil {
		once.repeated = allRepeats(s.answers)
	}
	return s.admitted()
}

func (s *crossSlot) decide(ctx context.Context, dry bool) error {
	if dry || !s.returnable() {
		if err := s.take(ctx, true); err != nil || dry || !s.admitted() {
			return err
		}
	}
	err := s.take(ctx, false)
	if err != nil || !s.admitted() {
		s.refund(ctx)
	}
	return err
}

// returnable reports whether the charges of all claims can be refunded.
func (s *crossSlot) returnable() bool {
	for i := range s.claims {
		if c := &s.claims[i]; c.Cost < 0 || c.Limit.Algorithm() == stint.LeakyBucket {
			return false
		}
	}
	return true
}

func (s *crossSlot) admitted() bool {
	_, binding := stint.Combine(s.claims, s.answers)
	return binding.Allowed
}

// newCrossSlot cuts a group into units. The claims in one slot form a unit. If a set
// of alternatives spans several slots, each of its claims is a unit of its own,
// because a denial of one alternative must not deny the rest of a unit.
func (s *Store) newCrossSlot(claims []stint.Claim, answers []stint.Decision) *crossSlot {
	sp := &crossSlot{store: s, claims: claims, answers: answers, out: make([]stint.Decision, len(claims))}
	slots := make([]uint16, len(claims))
	for i := range claims {
		slots[i] = s.slotOfClaim(&claims[i])
	}
	cut := make([]bool, len(claims))
	for i := range claims {
		if cut[i] {
			continue
		}
		unit := stint.Group{}
		for j := i; j < len(claims); j++ {
			if j == i || !cut[j] && slots[j] == slots[i] && !scattered(claims, slots, i) && !scattered(claims, slots, j) {
				unit.Claims = append(unit.Claims, claims[j])
				sp.from, cut[j] = append(sp.from, j), true
			}
		}
		sp.units = append(sp.units, unit)
		sp.scattered = append(sp.scattered, scattered(claims, slots, i))
	}
	return sp
}

// waitForNoReplica clears the number of replicas of all claims, for a group that does
// not wait for replicas although its claims ask for them.
func (s *crossSlot) waitForNoReplica() {
	for i := range s.units {
		for j := range s.units[i].Claims {
			s.units[i].Claims[j].Policy.Replicas = 0
		}
	}
}

// scattered reports whether a claim belongs to a set of alternatives that spans
// several slots.
func scattered(claims []stint.Claim, slots []uint16, i int) bool {
	for j := range claims {
		if claims[i].AnyOf > 0 && claims[j].AnyOf == claims[i].AnyOf && slots[j] != slots[i] {
			return true
		}
	}
	return false
}

// take decides the units in parallel and, unless dry is set, charges those that are
// admitted. It returns the first error of a unit.
func (s *crossSlot) take(ctx context.Context, dry bool) error {
	for i := range s.units {
		s.units[i].Dry = dry
	}
	p := s.store.plan(ctx, s.units, s.out)
	p.checked, p.onces = true, s.oncesOfUnits(dry)
	p.run()
	s.errs, _ = storekit.PartErrors(p.end(), len(s.units))
	for _, err := range s.errs {
		if err != nil {
			return err
		}
	}
	for i, at := range s.from {
		s.answers[at] = s.out[i]
	}
	return nil
}

// refund refunds what was charged and updates the answers of those claims. It is sent
// even if the caller's context has ended.
func (s *crossSlot) refund(ctx context.Context) {
	var groups []stint.Group
	var from []int
	var undos []*onceCall
	if s.once == nil {
		groups, from = s.charged()
	} else {
		groups, from, undos = s.undos()
	}
	out := make([]stint.Decision, len(from))
	p := s.store.plan(ctx, groups, out)
	p.keep, p.onces = true, undos
	p.run()
	_ = p.end() // a charge whose refund failed stays
	for i, at := range from {
		if d := &s.answers[at]; out[i].Allowed {
			d.Remaining, d.ResetAfter, d.NextAfter = out[i].Remaining, out[i].ResetAfter, out[i].NextAfter
			d.Granted, d.Delay = 0, 0
		}
	}
}

// charged returns the refunds for the units that were admitted, one group for each
// charged claim. from has the index of each of these claims in the group.
func (s *crossSlot) charged() (groups []stint.Group, from []int) {
	first := 0
	for i, unit := range s.units {
		out := s.out[first : first+len(unit.Claims)]
		places := s.from[first : first+len(unit.Claims)]
		first += len(unit.Claims)
		if _, binding := stint.Combine(unit.Claims, out); !binding.Allowed || s.errs != nil && s.errs[i] != nil {
			continue
		}
		for j := range unit.Claims {
			if c, charged := storekit.RefundOf(unit.Claims[j], &out[j]); charged {
				groups, from = append(groups, stint.Group{Claims: []stint.Claim{c}}), append(from, places[j])
			}
		}
	}
	return groups, from
}
