package redisstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/stintdev/stint"
)

// TakeGroups decides the groups one after the other, each atomically, and
// writes one decision per claim into out. Groups are sent together where that
// changes nothing. On a Cluster a group whose keys are of several slots is
// atomic up to a round trip: the package comment says how.
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

// plan is one run over groups: which of them travel together, and which wait
// for the answer to others. Groups of one slot are one call, decided in order.
type plan struct {
	store  *Store
	ctx    context.Context //nolint:containedctx // a plan lives as long as the call that it is of
	groups []stint.Group
	out    []stint.Decision
	errs   []error // by group; nil while there is none
	dry    bool    // decide only
	keep   bool    // send although ctx has ended

	calls  []*call // to be sent, one a slot
	unsent []sending
	left   []error // by call: why it was left
	leader leader
}

// sending is a group on its way: where its answers will be, and where they go.
type sending struct {
	index, first   int // of the group and of its first claim, in the plan
	claims         int
	call           int // of the plan
	group, fromOut int // in the call
}

// leader is the nearest group before that is not Shadow; those that are follow
// it.
type leader struct {
	index, first int
	slot         uint16
	replicas     uint8 // of its call
	known        bool  // it was decided, or there is none
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

// end returns the errors and the plan to its pool.
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

// take puts a group on its way.
func (p *plan) take(index, first int) {
	a := asked{Group: p.groups[index], dry: p.dry}
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
		l.replicas = p.leader.replicas // it travels with its leader, if it can
	}
	if one && p.overtakes(&a.Group, l.slot, l.replicas) {
		p.flush()
	}
	if shadow {
		p.follow(&a, l.slot, one)
	}
	if !a.Shadow { // it does not travel with its leader
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

// follow makes a shadow group one that needs no leader, unless it travels with
// it.
func (p *plan) follow(a *asked, slot uint16, one bool) {
	if !p.leader.known && (!one || slot != p.leader.slot) {
		p.flush()
	}
	if p.leader.known {
		a.Shadow, a.dry = false, p.dry || !p.leader.admitted
	}
}

// add puts a group of one slot into the call of that slot.
func (p *plan) add(a asked, at leader) {
	i := p.callOf(at.slot, at.replicas)
	c := p.calls[i]
	p.unsent = append(p.unsent, sending{index: at.index, first: at.first, claims: len(a.Claims), call: i, group: len(c.groups), fromOut: len(c.out)})
	c.add(a)
}

// size is the claims of the fullest call.
func (p *plan) size() (claims int) {
	for _, c := range p.calls {
		claims = max(claims, len(c.claims))
	}
	return claims
}

// callOf returns the call of a slot and a number of replicas: groups that wait
// for replicas do not hold up others.
func (p *plan) callOf(slot uint16, replicas uint8) int {
	for i, c := range p.calls {
		if c.slot == slot && c.replicas == replicas {
			return i
		}
	}
	c := p.store.calls.get()
	c.slot, c.replicas, c.keep = slot, replicas, p.keep
	p.calls = append(p.calls, c)
	return len(p.calls) - 1
}

// overtakes reports whether a group could be decided before one that comes
// first and shares the state of a key with it, because another call of the same
// slot has that one.
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

// flush sends what is to be sent and waits for the answers.
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

// sendCalls returns when each call has landed or was left.
func (p *plan) sendCalls() {
	p.left = p.left[:0]
	if !p.keep && p.ctx.Err() != nil {
		for range p.calls {
			p.left = append(p.left, endedUnsent(p.ctx))
		}
		return
	}
	for _, c := range p.calls {
		p.store.batcherOf(c.slot, c.replicas).send(p.ctx, c, len(p.calls) == 1)
	}
	for _, c := range p.calls {
		p.left = append(p.left, c.wait(p.ctx))
	}
}

// collect takes over the answers to a group.
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
