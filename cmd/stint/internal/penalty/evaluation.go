package penalty

import (
	"context"
	"errors"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// evaluation is the state of one call: its groups, its callers and their
// punishments.
type evaluation struct {
	store   *Store
	groups  []stint.Group
	out     []stint.Decision
	callers []caller
}

// caller is one key of one rule in one group.
type caller struct {
	penalty *rule.Penalty
	rule    string
	key     string
	group   int
	first   int // index of its first claim in the decisions of the call
	claims  []stint.Claim
	peeks   bool             // its cost is 0
	blind   bool             // the store did not tell whether the caller is punished
	left    time.Duration    // remaining time of its punishment
	strike  []stint.Decision // decisions on the groups of strikes; nil: not requested yet
}

// claim returns a claim on one of the penalty's limits. The claim has the zero
// policy, which admits it while the store fails: a store failure punishes
// nobody.
func (c *caller) claim(l stint.Limit, cost int64) []stint.Claim {
	return []stint.Claim{{Key: c.key, Limit: l, Cost: cost}}
}

// findCallers collects the callers of the call. The claims of one rule for one
// key are adjacent in a group.
func (t *evaluation) findCallers() {
	at := 0
	for g := range t.groups {
		claims := t.groups[g].Claims
		for i := 0; i < len(claims); {
			n := together(claims[i:])
			c := &claims[i]
			if p := t.store.penaltyOf(c); p != nil && !t.groups[g].Shadow {
				t.callers = append(t.callers, caller{penalty: p, rule: c.Limit.Rule(), key: c.Key, peeks: c.Cost == 0, group: g, first: at + i, claims: claims[i : i+n]})
			}
			i += n
		}
		at += len(claims)
	}
}

// together returns the length of the prefix of claims that belongs to one rule
// and one key.
func together(claims []stint.Claim) int {
	for i := range claims {
		if claims[i].Key != claims[0].Key || !claims[i].Limit.Valid() || claims[i].Limit.Rule() != claims[0].Limit.Rule() {
			return max(i, 1)
		}
	}
	return len(claims)
}

// apply decides the groups after lookUp has found the punished callers.
func (t *evaluation) apply(ctx context.Context) error {
	err := t.decide(ctx)
	if err == nil {
		t.strike(ctx)
	} else if _, some := errors.AsType[*stint.GroupsError](err); !some {
		return err
	}
	t.tell()
	return err
}

// lookUp reads the remaining punishment of each caller. It changes nothing.
func (t *evaluation) lookUp(ctx context.Context) error {
	if len(t.callers) == 1 {
		c := &t.callers[0]
		d, err := t.store.inner.Take(ctx, c.claim(c.penalty.Gate, 0)[0])
		c.left, c.blind = d.ResetAfter, d.Degraded
		return err
	}
	groups := make([]stint.Group, len(t.callers))
	for i := range t.callers {
		groups[i].Claims = t.callers[i].claim(t.callers[i].penalty.Gate, 0)
	}
	gates := make([]stint.Decision, len(groups))
	err := t.store.inner.TakeGroups(ctx, groups, gates)
	some, ok := errors.AsType[*stint.GroupsError](err)
	if err != nil && !ok {
		return err
	}
	for i := range t.callers {
		c := &t.callers[i]
		c.left, c.blind = gates[i].ResetAfter, gates[i].Degraded
		if ok && some.Errs[i] != nil {
			c.left, c.blind = 0, true
		}
	}
	return nil
}

// decide takes the groups from the store.
//
// A group with a punished caller must be decided but not charged. It is
// therefore sent as the shadow of an extra group that is never admitted. The
// strikes of punished callers are certain, so they are sent in the same call.
func (t *evaluation) decide(ctx context.Context) error {
	punished := t.punishedGroups()
	if punished == nil {
		return t.store.inner.TakeGroups(ctx, t.groups, t.out)
	}
	asked := t.behindGroups(punished)
	plain := len(t.out) + len(asked) - len(t.groups)
	struck := t.filter((*caller).punished)
	for _, c := range struck {
		asked = append(asked, c.strikes()...)
	}
	answers := make([]stint.Decision, plain+strikeGroups*len(struck))
	err := t.store.inner.TakeGroups(ctx, asked, answers)
	some, ok := errors.AsType[*stint.GroupsError](err)
	if err != nil && !ok {
		return err
	}
	if err == nil {
		shareOut(struck, answers[plain:])
	}
	return t.without(punished, answers, some)
}

// behindGroups returns the groups to send: before each group with a punished
// caller it inserts the group that is never admitted.
func (t *evaluation) behindGroups(punished []*caller) (asked []stint.Group) {
	for g, group := range t.groups {
		if by := punished[g]; by != nil {
			asked = append(asked, stint.Group{Claims: by.claim(by.penalty.Strikes, stint.MaxCost)})
			group.Shadow = true
		}
		asked = append(asked, group)
	}
	return asked
}

// punished reports whether the claims of the caller are denied whatever its
// limits allow.
func (c *caller) punished() bool { return c.left > 0 && !c.peeks }

// punishedGroups returns one punished caller for each group, nil for a group
// without one. The whole list is nil when nobody is punished.
func (t *evaluation) punishedGroups() (list []*caller) {
	for i := range t.callers {
		c := &t.callers[i]
		if !c.punished() {
			continue
		}
		if list == nil {
			list = make([]*caller, len(t.groups))
		}
		list[c.group] = c
	}
	return list
}

// without copies the answers to t.out and leaves out those of the inserted
// groups.
func (t *evaluation) without(punished []*caller, answers []stint.Decision, some *stint.GroupsError) error {
	var errs []error
	at, from, asked := 0, 0, 0
	for g := range t.groups {
		if punished[g] != nil {
			from, asked = from+1, asked+1
		}
		n := copy(t.out[at:at+len(t.groups[g].Claims)], answers[from:])
		at, from = at+n, from+n
		if some != nil {
			errs = append(errs, some.Errs[asked])
		}
		asked++
	}
	for _, err := range errs {
		if err != nil {
			return &stint.GroupsError{Errs: errs}
		}
	}
	return nil
}

// tell applies the punishments to the decisions, except to degraded ones, in
// which the store had no part.
func (t *evaluation) tell() {
	for i := range t.callers {
		c := &t.callers[i]
		if c.left <= 0 {
			continue
		}
		if !c.peeks {
			t.store.observer.Denied(c.rule)
		}
		for j := range c.claims {
			if d := &t.out[c.first+j]; !d.Degraded {
				c.tell(d)
			}
		}
	}
}

// tell applies a punishment to one decision. A peek stays allowed and sees that
// nothing remains.
func (c *caller) tell(d *stint.Decision) {
	d.Remaining, d.Delay, d.Granted = 0, 0, 0
	d.ResetAfter, d.NextAfter = max(d.ResetAfter, c.left), max(d.NextAfter, c.left)
	if !c.peeks {
		d.Allowed, d.RetryAfter = false, max(d.RetryAfter, c.left)
	}
}
