package redisstore

import (
	"context"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/crossgroup"
	"github.com/stintdev/stint/storekit"
)

// A group with keys in several slots of a Cluster cannot be one script call. The
// store charges its claims slot by slot, in parallel, and refunds them if one slot
// denies the group (see package crossgroup). A charged key loses what it would have
// refilled until the refund. A charge stays if its outcome, or the outcome of its
// refund, is unknown.
//
// A group with a claim that cannot be refunded is first decided dry, in a round trip of
// its own. If that denies the group, nothing was charged. Such a claim stays charged only
// if another caller took the rest between the dry run and the charge.

// crossSlot is one group in several slots, cut into units that are in one slot each.
type crossSlot struct {
	*crossgroup.Cut

	store *Store
	once  *onceCall // the call of the group if it may be repeated
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
		clear(s.Answers)
		p.errs.Set(at.part, p.groups, err)
		return false
	}
	if once != nil {
		once.repeated = allRepeats(s.Answers)
	}
	return s.Admitted()
}

func (s *crossSlot) decide(ctx context.Context, dry bool) error {
	if dry || !crossgroup.Returnable(s.Claims) {
		if err := s.take(ctx, true); err != nil || dry || !s.Admitted() {
			return err
		}
	}
	err := s.take(ctx, false)
	if err != nil || !s.Admitted() {
		s.refund(ctx)
	}
	return err
}

// newCrossSlot cuts a group into units.
func (s *Store) newCrossSlot(claims []stint.Claim, answers []stint.Decision) *crossSlot {
	slots := make([]int, len(claims))
	for i := range claims {
		slots[i] = int(s.slotOfClaim(&claims[i]))
	}
	return &crossSlot{Cut: crossgroup.New(claims, answers, slots), store: s}
}

// waitForNoReplica clears the number of replicas of all claims, for a group that does
// not wait for replicas although its claims ask for them.
func (s *crossSlot) waitForNoReplica() {
	for i := range s.Units {
		for j := range s.Units[i].Claims {
			s.Units[i].Claims[j].Policy.Replicas = 0
		}
	}
}

// take decides the units in parallel and, unless dry is set, charges those that are
// admitted. It returns the first error of a unit.
func (s *crossSlot) take(ctx context.Context, dry bool) error {
	for i := range s.Units {
		s.Units[i].Dry = dry
	}
	p := s.store.plan(ctx, s.Units, s.Out)
	p.checked, p.onces = true, s.oncesOfUnits(dry)
	p.run()
	s.Errs, _ = storekit.PartErrors(p.end(), len(s.Units))
	for _, err := range s.Errs {
		if err != nil {
			return err
		}
	}
	s.Gather()
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
	s.Refunded(from, out)
}

// charged returns the refunds for the units that were admitted, one group for each
// charged claim. from has the index of each of these claims in the group.
func (s *crossSlot) charged() (groups []stint.Group, from []int) {
	for i := range s.Units {
		refunds, places := s.Charged(i)
		groups, from = append(groups, refunds...), append(from, places...)
	}
	return groups, from
}
