package redisstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/stintdev/stint"
)

// TakeGroups decides the groups in order, each atomically, and writes one decision
// per claim into out. It sends groups together if that does not change a decision.
// On a Cluster a group with keys in several slots is not strictly atomic: see the
// package comment.
func (s *Store) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if !s.made() {
		return errNotMade
	}
	claims := 0
	for i := range groups {
		claims += len(groups[i].Claims)
	}
	if claims != len(out) {
		return &stint.Error{Code: stint.CodeInvalid, Problem: fmt.Sprintf("out: has room for %d decisions, and there are %d claims", len(out), claims), Mend: "pass one for each claim"}
	}
	clear(out)
	p := s.plan(ctx, groups, out)
	p.run()
	return p.end()
}

// plan is one run over the groups of TakeGroups. It decides which groups are sent
// together and which must wait for the answer to earlier groups. Groups in one slot
// form one call and are decided in order.
type plan struct {
	store  *Store
	ctx    context.Context //nolint:containedctx // a plan lives as long as the call that it is of
	groups []stint.Group
	out    []stint.Decision
	errs   []error // by group; nil while no group has failed
	dry    bool    // decide without charging
	keep   bool    // send even if ctx has ended

	calls  []*pending // to be sent, one for each slot and number of replicas
	unsent []sending
	left   []error // by call: why the plan gave it up, or nil
	leader leader
}

// sending locates a group of an unsent call, so that its answers can be copied from
// the call to the plan.
type sending struct {
	index, first   int // index in the plan of the group and of its first claim
	claims         int // number of claims
	call           int // index of the call in the plan
	group, fromOut int // index in the call of the group and of its first decision
}

// leader is the nearest earlier group that is not a shadow group. Shadow groups are
// charged only if their leader was admitted.
type leader struct {
	index, first int
	slot         uint16
	replicas     uint8 // of its call
	known        bool  // the leader was decided, or there is none
	admitted     bool
}

func (s *Store) plan(ctx context.Context, groups []stint.Group, out []stint.Decision) *plan {
	p, ok := s.plans.Get().(*plan)
	if !ok {
		p = &plan{store: s}
	}
	p.ctx, p.groups, p.out = ctx, groups, out
	p.leader = leader{known: true, admitted: true}
	return p
}

// end returns the errors of the groups and recycles the plan.
func (p *plan) end() (err error) {
	if p.errs != nil {
		err = &stint.GroupsError{Errs: p.errs}
	}
	*p = plan{store: p.store, calls: p.calls[:0], unsent: p.unsent[:0], left: p.left[:0]}
	p.store.plans.Put(p)
	return err
}

func (p *plan) run() {
	first := 0
	for i := range p.groups {
		p.take(i, first)
		first += len(p.groups[i].Claims)
	}
	p.flush()
}

// take adds a group to the call of its slot. It first flushes the unsent calls if the
// group depends on their answers. A group in several slots is decided at once.
func (p *plan) take(index, first int) {
	a := groupToSend{Group: p.groups[index], dry: p.dry}
	if !p.dry {
		a.replicas = replicasOf(&a.Group)
	}
	l := leader{index: index, first: first}
	err := a.Validate()
	if err == nil && !p.dry {
		err = p.store.encoding.admitAll(a.Claims)
	}
	if err != nil || len(a.Claims) == 0 {
		p.fail(index, err)
		l.known, l.admitted = true, err == nil
		p.lead(a.Shadow, l)
		return
	}
	var one bool
	l.slot, one = p.store.slotOf(a.Claims)
	shadow := a.Shadow
	if l.replicas = a.replicas; shadow && !p.leader.known {
		l.replicas = p.leader.replicas // so that it can share the leader's call
	}
	if one && p.overtakes(&a.Group, l.slot, l.replicas) {
		p.flush()
	}
	if shadow {
		p.follow(&a, l.slot, one)
	}
	if !a.Shadow { // it does not share the leader's call
		l.replicas = a.replicas
	}
	if one {
		p.add(a, l)
	} else {
		l.known, l.admitted = true, p.crossSlot(a, index, first)
	}
	p.lead(shadow, l)
	if p.size() >= maxLines {
		p.flush()
	}
}

func (p *plan) lead(shadow bool, l leader) {
	if !shadow {
		p.leader = l
	}
}

// follow prepares a shadow group. If the group can share the leader's call, the
// script applies the leader's result. Otherwise follow waits for the leader's answer
// and turns the shadow group into a normal one, which is dry unless the leader was
// admitted.
func (p *plan) follow(a *groupToSend, slot uint16, one bool) {
	if !p.leader.known && (!one || slot != p.leader.slot) {
		p.flush()
	}
	if p.leader.known {
		a.Shadow, a.dry = false, p.dry || !p.leader.admitted
	}
}

// add appends a group in one slot to the call of that slot.
func (p *plan) add(a groupToSend, at leader) {
	i := p.callOf(at.slot, at.replicas)
	c := p.calls[i]
	p.unsent = append(p.unsent, sending{index: at.index, first: at.first, claims: len(a.Claims), call: i, group: len(c.groups), fromOut: len(c.out)})
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
		if c.slot == slot && c.replicas == replicas {
			return i
		}
	}
	c := p.store.calls.get()
	c.slot, c.replicas, c.Keep = slot, replicas, p.keep
	p.calls = append(p.calls, c)
	return len(p.calls) - 1
}

// overtakes reports whether a group could be decided before an earlier group that
// uses the same state. That can happen if the earlier group is in another call of the
// same slot.
func (p *plan) overtakes(g *stint.Group, slot uint16, replicas uint8) bool {
	for _, c := range p.calls {
		if c.slot != slot || c.replicas == replicas {
			continue
		}
		for i := range g.Claims {
			if slices.ContainsFunc(c.claims, func(o stint.Claim) bool { return p.store.encoding.oneState(&o, &g.Claims[i]) }) {
				return true
			}
		}
	}
	return false
}

// flush sends the unsent calls, waits for them and collects the answers.
func (p *plan) flush() {
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
	p.calls, p.unsent = p.calls[:0], p.unsent[:0]
	if l := &p.leader; !l.known {
		l.known, l.admitted = true, p.admitted(l.index, l.first)
	}
}

// sendCalls sends the calls and returns when each is answered or given up. left then
// has the reason for each call that was given up.
func (p *plan) sendCalls() {
	p.left = p.left[:0]
	if !p.keep && p.ctx.Err() != nil {
		for range p.calls {
			p.left = append(p.left, endedUnsent(p.ctx))
		}
		return
	}
	lone := len(p.calls) == 1 && !p.keep && patient(p.ctx)
	for _, c := range p.calls {
		p.store.batcherOf(c.slot, c.replicas).Send(p.ctx, &c.Call, lone && c.replicas == 0)
	}
	for _, c := range p.calls {
		p.left = append(p.left, p.store.calls.await(p.ctx, c))
	}
}

// collect copies a group's decisions or error from its call to the plan.
func (p *plan) collect(s *sending) {
	if err := p.left[s.call]; err != nil {
		p.fail(s.index, err)
		return
	}
	c := p.calls[s.call]
	if err := c.errs[s.group]; err != nil {
		p.fail(s.index, err)
		return
	}
	copy(p.out[s.first:s.first+s.claims], c.out[s.fromOut:])
}

func (p *plan) admitted(index, first int) bool {
	if p.errs != nil && p.errs[index] != nil {
		return false
	}
	claims := p.groups[index].Claims
	_, face := stint.Combine(claims, p.out[first:first+len(claims)])
	return face.Allowed
}

func (p *plan) fail(index int, err error) {
	if err == nil {
		return
	}
	if p.errs == nil {
		p.errs = make([]error, len(p.groups))
	}
	p.errs[index] = err
}
