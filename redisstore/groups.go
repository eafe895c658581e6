package redisstore

import (
	"context"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// TakeGroups decides the groups in order, each atomically, and writes one decision
// per claim into out. It sends groups together if that does not change a decision.
// On a Cluster a group with keys in several slots is not strictly atomic: see the
// package comment.
func (s *Store) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if !s.made() {
		return errNotMade
	}
	if err := storekit.CheckOut(groups, out); err != nil {
		return err
	}
	clear(out)
	p := s.plan(ctx, groups, out)
	p.onces = oncesOf(groups)
	p.mark()
	p.run()
	p.unmark()
	return p.end()
}

// plan is one run over the groups of TakeGroups. It decides which parts of groups are
// sent together and which must wait for the answer to earlier parts. Parts in one slot
// form one call and are decided in order.
type plan struct {
	store   *Store
	ctx     context.Context //nolint:containedctx // a plan lives as long as its call
	groups  []stint.Group
	out     []stint.Decision
	errs    storekit.Errors
	onces   []*onceCall // by group: its call if it may be repeated; nil if no group may be
	checked bool        // the claims are known to be valid
	keep    bool        // send even if ctx has ended

	calls  []*pending // to be sent, one for each slot and number of replicas, and the calls of chains
	heads  []int      // by call: the first call of its chain, which may be the call itself
	unsent []sending
	left   []error // by call: why the plan gave it up, or nil
	leader leader

	waiting []waitingShadow // shadows of unsent groups that may be repeated
}

// place locates a part of a group in the plan.
type place struct {
	part  int // its number among the parts of all groups
	first int // index of its first decision
}

// sending locates a part of an unsent call, so that its answers can be copied from
// the call to the plan.
type sending struct {
	place

	claims         int // number of claims
	call           int // index of the call in the plan
	group, fromOut int // index in the call of the part and of its first decision
}

// leader is the group whose parts the plan takes. Its shadows are charged only if it
// was admitted and is not dry.
type leader struct {
	at       place
	claims   []stint.Claim
	slot     uint16
	replicas uint8     // number of replicas of its call
	once     *onceCall // its call if it may be repeated
	pending  bool      // the part is in an unsent call
	charges  bool      // its shadows may be charged; they are unless it is pending
}

func (s *Store) plan(ctx context.Context, groups []stint.Group, out []stint.Decision) *plan {
	p, ok := s.plans.Get().(*plan)
	if !ok {
		p = &plan{store: s}
	}
	p.ctx, p.groups, p.out = ctx, groups, out
	return p
}

// end returns the errors of the parts and recycles the plan.
func (p *plan) end() error {
	err := p.errs.Err()
	*p = plan{store: p.store, calls: p.calls[:0], heads: p.heads[:0], unsent: p.unsent[:0], left: p.left[:0]}
	p.store.plans.Put(p)
	return err
}

func (p *plan) run() {
	var at place
	for i := range p.groups {
		g := &p.groups[i]
		p.leader = leader{charges: !g.Dry}
		for part := range g.Parts() {
			claims := g.Part(part)
			if part == 0 && p.onces != nil && p.onces[i] != nil {
				p.takeOnce(claims, at, p.onces[i])
			} else {
				p.take(claims, at, part > 0)
			}
			at.part++
			at.first += len(claims)
		}
	}
	p.flush()
}

// take adds a part of a group to the call of its slot. It first flushes the unsent
// calls if the part depends on their answers. A part in several slots is decided at
// once.
//
// A shadow shares the call of its group if it can, and the script applies the outcome
// of the group. Otherwise take waits for the answer to the group, and adds the shadow
// as a group of its own, which is dry unless the group was admitted. A shadow of a group
// that may be repeated waits without holding up the groups after it.
func (p *plan) take(claims []stint.Claim, at place, shadow bool) {
	if err := p.check(claims); err != nil || len(claims) == 0 {
		p.errs.Set(at.part, p.groups, err)
		if !shadow {
			p.leader.charges = p.leader.charges && err == nil
		}
		return
	}
	slot, one := p.store.slotOf(claims)
	if p.leader.pending && p.leader.once != nil && one {
		p.waiting = append(p.waiting, waitingShadow{claims, at, slot, p.leader})
		return
	}
	if len(p.waiting) > 0 && p.usesWaiting(claims) {
		p.flush()
	}
	if l := &p.leader; l.pending && (!one || slot != l.slot || p.overtakes(claims, slot, l.replicas)) {
		p.flush()
	}
	a := groupToSend{claims: claims}
	if !shadow && p.leader.charges {
		a.replicas = replicasOf(claims)
	}
	replicas := a.replicas
	switch {
	case p.leader.pending:
		a.flags, replicas = following, p.leader.replicas
	case !p.leader.charges:
		a.flags = dryGroup
	}
	if one && p.overtakes(claims, slot, replicas) {
		p.flush()
	}
	if !one {
		admitted := p.crossSlot(a, at, nil)
		if !shadow {
			p.leader.charges = p.leader.charges && admitted
		}
		return
	}
	p.add(a, at, slot, replicas)
	if !shadow && p.leader.charges {
		p.leader = leader{at: at, claims: claims, slot: slot, replicas: replicas, pending: true, charges: true}
	}
	if p.size() >= maxLines {
		p.flush()
	}
}

// check returns the error of a part that cannot be sent.
func (p *plan) check(claims []stint.Claim) error {
	if p.checked {
		return nil
	}
	err := stint.ValidateClaims(claims)
	if err == nil && p.leader.charges {
		err = p.store.encoding.admitAll(claims)
	}
	return err
}

// add appends a part in one slot to the call of that slot.
func (p *plan) add(a groupToSend, at place, slot uint16, replicas uint8) {
	p.addTo(p.callOf(slot, replicas), a, at)
}

// addTo appends a part to a call.
func (p *plan) addTo(i int, a groupToSend, at place) {
	c := p.calls[i]
	p.unsent = append(p.unsent, sending{place: at, claims: len(a.claims), call: i, group: len(c.groups), fromOut: len(c.out)})
	c.add(a)
}

// size returns the number of claims of the largest unsent call.
func (p *plan) size() (claims int) {
	for _, c := range p.calls {
		claims = max(claims, len(c.claims))
	}
	return claims
}

// callOf returns the index of the call for a slot and a number of replicas. Groups
// that wait for replicas have a call of their own and do not delay other groups.
func (p *plan) callOf(slot uint16, replicas uint8) int {
	for i, c := range p.calls {
		if c.slot == slot && c.replicas == replicas && c.once == nil {
			return i
		}
	}
	return p.newCall(slot, replicas)
}

// newCall adds a call and returns its index.
func (p *plan) newCall(slot uint16, replicas uint8) int {
	c := p.store.calls.get()
	c.slot, c.replicas, c.Keep = slot, replicas, p.keep
	p.heads = append(p.heads, len(p.calls))
	p.calls = append(p.calls, c)
	return len(p.calls) - 1
}

// overtakes reports whether claims could be decided before earlier ones that use the
// same state. That can happen if the earlier claims are in another call of the same
// slot.
func (p *plan) overtakes(claims []stint.Claim, slot uint16, replicas uint8) bool {
	return p.anyUses(claims, slot, func(c *pending) bool { return c.once != nil || c.replicas != replicas })
}

// anyUses reports whether an unsent call of the slot that matches uses the state of one of
// the claims.
func (p *plan) anyUses(claims []stint.Claim, slot uint16, match func(*pending) bool) bool {
	for _, c := range p.calls {
		if c.slot != slot || !match(c) {
			continue
		}
		if p.store.encoding.shareState(c.claims, claims) {
			return true
		}
	}
	return false
}

// flush sends the unsent calls and then the waiting shadows, and collects the answers.
func (p *plan) flush() {
	p.flushCalls()
	if len(p.waiting) > 0 {
		p.takeWaiting()
	}
}

// flushCalls sends the unsent calls, waits for them and collects the answers.
func (p *plan) flushCalls() {
	if len(p.calls) == 0 {
		return
	}
	p.sendCalls()
	for i := range p.unsent {
		p.collect(&p.unsent[i])
	}
	for i, c := range p.calls {
		if p.left[i] == nil {
			p.store.calls.put(c)
		}
	}
	clear(p.calls)
	p.calls, p.heads, p.unsent = p.calls[:0], p.heads[:0], p.unsent[:0]
	if l := &p.leader; l.pending {
		l.pending, l.charges = false, p.admitted(l)
	}
}

// sendCalls sends the calls and returns when each is answered or given up. left then
// has the reason for each call that was given up.
func (p *plan) sendCalls() {
	p.left = p.left[:0]
	if !p.keep && p.ctx.Err() != nil {
		for range p.calls {
			p.left = append(p.left, storekit.Ended(p.ctx, false))
		}
		return
	}
	lone := len(p.calls) == 1 && !p.keep && patient(p.ctx)
	for i, c := range p.calls {
		if p.heads[i] == i {
			p.store.batcherOf(c.slot, c.replicas).Send(p.ctx, &c.Call, lone && c.replicas == 0)
		}
	}
	for i, c := range p.calls {
		if head := p.heads[i]; head < i {
			p.left = append(p.left, p.left[head])
		} else {
			p.left = append(p.left, p.store.calls.await(p.ctx, c))
		}
	}
}

// collect copies a part's decisions or error from its call to the plan.
func (p *plan) collect(s *sending) {
	if err := p.left[s.call]; err != nil {
		p.errs.Set(s.part, p.groups, err)
		return
	}
	c := p.calls[s.call]
	if err := c.errs[s.group]; err != nil {
		p.errs.Set(s.part, p.groups, err)
		return
	}
	copy(p.out[s.first:s.first+s.claims], c.out[s.fromOut:])
}

func (p *plan) admitted(l *leader) bool {
	if p.errs.Of(l.at.part) != nil {
		return false
	}
	if l.once != nil && l.once.repeated {
		return false
	}
	_, binding := stint.Combine(l.claims, p.out[l.at.first:l.at.first+len(l.claims)])
	return binding.Allowed
}
