package redisstore

import (
	"context"
	"errors"
	"math/bits"

	"github.com/stintdev/stint"
)

// A group whose keys are of several slots of a Cluster cannot be one script
// call. Its claims are taken slot by slot, at the same time, and given back
// when one of them denies the group. While such a group is under way others may
// see its charges, for up to one round trip until they are given back: they may
// be denied because of them, and never get more than their limit. What a key
// would have refilled in that time is lost to it. A charge whose outcome is
// unknown, or whose giving back is, stays.
//
// A group with a claim that cannot be given back (of a leaky bucket, or one
// that itself gives back) is asked about first, in a round trip of its own: when
// it is denied then, nothing was charged. Such a claim stays charged only when
// another caller took what was left in between.

// crossSlot is one group of several slots, cut into units that each are of one.
type crossSlot struct {
	store   *Store
	claims  []stint.Claim
	answers []stint.Decision // one a claim
	units   []stint.Group
	from    []int // by claim of the units, in order: its place in the group
	out     []stint.Decision
	errs    []error // by unit; nil when all were decided
}

// crossSlot decides one group and reports whether it was admitted.
func (p *plan) crossSlot(a asked, index, first int) bool {
	p.flush()
	s := p.store.newCrossSlot(a.Claims, p.out[first:first+len(a.Claims)])
	if a.replicas == 0 {
		s.waitForNoReplica()
	}
	if err := s.decide(p.ctx, a.dry); err != nil {
		clear(s.answers)
		p.fail(index, err)
		return false
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

// returnable reports whether all that the claims charge can be given back.
func (s *crossSlot) returnable() bool {
	for i := range s.claims {
		if c := &s.claims[i]; c.Cost < 0 || c.Limit.Algorithm() == stint.LeakyBucket {
			return false
		}
	}
	return true
}

func (s *crossSlot) admitted() bool {
	_, face := stint.Combine(s.claims, s.answers)
	return face.Allowed
}

// newCrossSlot cuts a group: the claims of one slot are a unit, but those of a set
// of alternatives that is of several slots are one each, because none of them
// has to be allowed.
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
	}
	return sp
}

// waitForNoReplica has the units wait for no replica: their group does not,
// though its claims may ask for it.
func (s *crossSlot) waitForNoReplica() {
	for i := range s.units {
		for j := range s.units[i].Claims {
			s.units[i].Claims[j].Policy.Replicas = 0
		}
	}
}

// scattered reports whether a claim is one of a set of alternatives of several
// slots.
func scattered(claims []stint.Claim, slots []uint16, i int) bool {
	for j := range claims {
		if claims[i].Any > 0 && claims[j].Any == claims[i].Any && slots[j] != slots[i] {
			return true
		}
	}
	return false
}

// take decides the units at the same time, and charges those that are admitted
// unless it is dry. The error is the first of theirs.
func (s *crossSlot) take(ctx context.Context, dry bool) error {
	p := s.store.plan(ctx, s.units, s.out)
	p.dry = dry
	p.run()
	err := p.end()
	s.errs = nil
	if failed, ok := errors.AsType[*stint.GroupsError](err); ok {
		s.errs = failed.Errs
		for _, err := range s.errs {
			if err != nil {
				return err
			}
		}
	}
	for i, at := range s.from {
		s.answers[at] = s.out[i]
	}
	return nil
}

// refund returns what was charged and shows those claims as they stand then.
// It is sent also when the caller has left.
func (s *crossSlot) refund(ctx context.Context) {
	groups, from := s.charged()
	out := make([]stint.Decision, len(groups))
	p := s.store.plan(ctx, groups, out)
	p.keep = true
	p.run()
	_ = p.end() // what could not be given back stays charged
	for i, at := range from {
		if d := &s.answers[at]; out[i].Allowed {
			d.Remaining, d.ResetAfter, d.NextAfter = out[i].Remaining, out[i].ResetAfter, out[i].NextAfter
			d.Granted, d.Delay = 0, 0
		}
	}
}

// charged returns what gives back the charges of the units that were admitted,
// and which claims of the group those are of.
func (s *crossSlot) charged() (groups []stint.Group, from []int) {
	first := 0
	for i, unit := range s.units {
		out := s.out[first : first+len(unit.Claims)]
		places := s.from[first : first+len(unit.Claims)]
		first += len(unit.Claims)
		if _, face := stint.Combine(unit.Claims, out); !face.Allowed || s.errs != nil && s.errs[i] != nil {
			continue
		}
		for j, c := range unit.Claims {
			if !out[j].Allowed || c.Cost < 0 || c.Cost+out[j].Granted == 0 {
				continue // nothing was charged
			}
			c.Cost, c.Extra, c.At = -c.Cost-out[j].Granted, 0, refilledFrom(&c, &out[j])
			groups, from = append(groups, stint.Group{Claims: []stint.Claim{c}}), append(from, places[j])
		}
	}
	return groups, from
}

// refilledFrom is from when on what a bucket refilled is not given back as
// well: from when it would have been full without the charge, for until then it
// refills all the same. From the charge itself on, each denial would cost up to
// a micro-unit, for good: thousands a second would eat up a slow limit. It is
// taken a little too early rather than too late. The others are given back as
// of the charge.
func refilledFrom(c *stint.Claim, charged *stint.Decision) int64 {
	n := c.Limit.Numbers()
	if n.P == 0 { // no bucket
		return charged.At
	}
	full := charged.ResetAfter.Microseconds() - 1 - refillTime(n, c.Cost+charged.Granted)
	return min(charged.At+max(0, full), maxMicros)
}

// refillTime is how long a bucket takes to refill so many units, which it has
// room for, in µs and rounded up.
func refillTime(n stint.Numbers, units int64) int64 {
	hi, lo := bits.Mul64(uint64(units)*1_000_000, uint64(n.Q))
	p := uint64(n.P)
	lo, carry := bits.Add64(lo, p-1, 0)
	t, _ := bits.Div64(hi+carry, lo, p) // below Fill, so that it fits
	return int64(t)
}
