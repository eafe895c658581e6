package redisstore

import (
	"cmp"
	"slices"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// maxOnces bounds the unsent calls of groups that may be repeated, each of which is
// compared with every later part. Together they also have at most maxLines claims, unless
// a single one has more.
const maxOnces = 64

// oncesOf returns the calls of the groups that may be repeated, by group. It is nil if
// there are none.
func oncesOf(groups []stint.Group) (onces []*onceCall) {
	for i := range groups {
		if groups[i].Once == nil { // nearly always
			continue
		}
		if once := newOnce(&groups[i]); once != nil {
			if onces == nil {
				onces = make([]*onceCall, len(groups))
			}
			onces[i] = once
		}
	}
	return onces
}

// takeOnce adds a group that may be repeated as a call of its own. The calls of one slot
// and number of replicas form a chain: they travel in one round trip, in order. So groups
// on one key cost no round trip each.
func (p *plan) takeOnce(claims []stint.Claim, at place, once *onceCall) {
	err := cmp.Or(once.err, p.check(claims))
	if err != nil {
		p.errs.Set(at.part, p.groups, err)
		p.leader.charges = false
		return
	}
	if once.mode == onceTake && !p.checked {
		once.mode = p.store.encoding.modeOfNew()
	}
	a := groupToSend{claims: claims}
	if p.leader.charges {
		a.replicas = replicasOf(claims)
	} else {
		a.flags = dryGroup
	}
	slot, one := p.store.slotOf(claims)
	if !one {
		p.leader.charges = p.crossSlot(a, at, once) && !once.repeated
		return
	}
	apart := func(c *pending) bool { return c.once == nil || c.replicas != a.replicas }
	if p.isFull(len(claims)) || p.anyUses(claims, slot, apart) || p.usesWaiting(claims) {
		p.flush()
	}
	i := p.newCall(slot, a.replicas)
	p.calls[i].once = once
	p.calls[i].slow = true
	p.chain(i)
	p.addTo(i, a, at)
	p.leader = leader{at: at, claims: claims, slot: slot, replicas: a.replicas, once: once, pending: true, charges: p.leader.charges}
}

// isFull reports whether the unsent calls have no room for one more of some claims.
func (p *plan) isFull(claims int) bool {
	for _, c := range p.calls {
		claims += len(c.claims)
	}
	return len(p.calls) > 0 && (len(p.calls) >= maxOnces || claims > maxLines)
}

// chain appends call i to the chain of its slot and number of replicas, if there is one.
func (p *plan) chain(i int) {
	own := p.calls[i]
	for last := i - 1; last >= 0; last-- {
		if c := p.calls[last]; c.once != nil && c.slot == own.slot && c.replicas == own.replicas {
			c.then, p.heads[i] = own, p.heads[last]
			return
		}
	}
}

// waitingShadow is a shadow of an unsent group that may be repeated. Only the answer to the
// group tells whether the shadow is charged. The shadows of a chain wait for the answers to
// the whole chain, so that a group with shadows costs no round trips of its own.
type waitingShadow struct {
	claims []stint.Claim
	at     place
	slot   uint16
	leader leader
}

// usesWaiting reports whether a waiting shadow uses the state of one of the claims.
func (p *plan) usesWaiting(claims []stint.Claim) bool {
	for i := range p.waiting {
		if p.store.encoding.shareState(p.waiting[i].claims, claims) {
			return true
		}
	}
	return false
}

// takeWaiting decides the waiting shadows. All groups are answered.
func (p *plan) takeWaiting() {
	for i := range p.waiting {
		w := &p.waiting[i]
		a := groupToSend{claims: w.claims}
		if !p.admitted(&w.leader) {
			a.flags = dryGroup
		}
		p.add(a, w.at, w.slot, 0)
		if p.size() >= maxLines {
			p.flushCalls()
		}
	}
	clear(p.waiting)
	p.waiting = p.waiting[:0]
	p.flushCalls()
}

// oncesOfUnits returns the calls of the units of a group, nil if it is not to be repeated.
// A denied alternative is remembered too: in a repeat it must not be charged in place of
// the one that admitted the group.
func (s *crossSlot) oncesOfUnits(dry bool) (onces []*onceCall) {
	if s.once == nil {
		return nil
	}
	for i := range s.Units {
		mode := onceTake
		switch {
		case s.once.mode == onceFind:
			mode = onceFind
		case dry:
			mode = onceDry
		case s.Scattered(i):
			mode = onceAny
		}
		onces = append(onces, s.once.of(i, mode))
	}
	return onces
}

// undos returns the groups that refund the units and delete their records, one for each
// unit that was decided. from has the index of each of their claims in the group.
//
// After an error of one unit, the units that an earlier call has charged stay: that call may
// have admitted the whole group, and its caller may rely on it.
func (s *crossSlot) undos() (groups []stint.Group, from []int, onces []*onceCall) {
	for i, unit := range s.Units {
		out, places := s.OutOf(i), s.PlacesOf(i)
		if s.Errs != nil && (s.Errs[i] != nil || allRepeats(out)) {
			continue // its outcome is unknown, or an earlier call of the group has charged it
		}
		_, binding := stint.Combine(unit.Claims, out)
		var claims []stint.Claim
		for j := range unit.Claims {
			c, charged := storekit.RefundOf(unit.Claims[j], &out[j])
			if !charged || !binding.Allowed {
				c.Cost, c.Extra, c.At = 0, 0, 0
			}
			claims = append(claims, c)
		}
		groups, from = append(groups, stint.Group{Claims: claims}), append(from, places...)
		onces = append(onces, s.once.of(i, onceUndo))
	}
	return groups, from, onces
}

func allRepeats(decisions []stint.Decision) bool {
	return !slices.ContainsFunc(decisions, func(d stint.Decision) bool { return !d.Repeated })
}
