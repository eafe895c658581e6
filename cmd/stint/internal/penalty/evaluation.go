package penalty

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
	"github.com/stintdev/stint/storekit"
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
	peeks   bool          // its cost is 0
	blind   bool          // the store did not tell whether the caller is punished
	left    time.Duration // remaining time of its punishment
	kind    stint.PenaltyKind
	strike  []stint.Decision // decisions on the groups of strikes; nil: not requested yet
}

// claim returns a claim on one of the penalty's limits. The claim has the zero
// policy, which admits it while the store fails: a store failure punishes
// nobody.
func (c *caller) claim(l stint.Limit, cost int64) []stint.Claim {
	return []stint.Claim{{Key: c.key, Limit: l, Cost: cost}}
}

// findCallers collects the callers of the call. The claims of one rule for one
// key are adjacent in a group. Claims that only observe punish nobody.
func (e *evaluation) findCallers() {
	at := 0
	for g := range e.groups {
		claims := e.groups[g].Claims
		for i := 0; i < len(claims); {
			n := together(claims[i:])
			c := &claims[i]
			if p := e.store.penaltyOf(c); p != nil {
				e.callers = append(e.callers, caller{penalty: p, rule: c.Limit.Rule(), key: c.Key, peeks: c.Cost == 0, group: g, first: at + i, claims: claims[i : i+n]})
			}
			i += n
		}
		all, _ := stint.Sizes(e.groups[g : g+1])
		at += all
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
func (e *evaluation) apply(ctx context.Context) error {
	e.banHotKeys(ctx)
	err := e.decide(ctx)
	if err == nil {
		e.strike(ctx)
	} else if _, some := errors.AsType[*stint.GroupsError](err); !some {
		return err
	}
	e.applyPunishments()
	return err
}

// lookUp reads the remaining punishment of each caller. It changes nothing.
func (e *evaluation) lookUp(ctx context.Context) error {
	if len(e.callers) == 1 {
		c := &e.callers[0]
		d, err := e.store.inner.Take(ctx, c.claim(c.penalty.Gate, 0)[0])
		c.left, c.blind = d.ResetAfter, d.Degraded
		return err
	}
	groups := make([]stint.Group, len(e.callers))
	for i := range e.callers {
		groups[i].Claims = e.callers[i].claim(e.callers[i].penalty.Gate, 0)
	}
	gates := make([]stint.Decision, len(groups))
	errs, whole := storekit.PartErrors(e.store.inner.TakeGroups(ctx, groups, gates), len(groups))
	if whole != nil {
		return whole
	}
	for i := range e.callers {
		c := &e.callers[i]
		c.left, c.blind = gates[i].ResetAfter, gates[i].Degraded
		if errs != nil && errs[i] != nil {
			c.left, c.blind = 0, true
		}
	}
	return nil
}

// decide takes the groups from the store. A group with a punished caller is dry: it
// is decided and not charged. The strikes of punished callers are certain, so they
// are sent in the same call.
func (e *evaluation) decide(ctx context.Context) error {
	struck := e.filter((*caller).punished)
	if len(struck) == 0 {
		return e.store.inner.TakeGroups(ctx, e.groups, e.out)
	}
	groups := slices.Clone(e.groups)
	_, own := stint.Sizes(groups)
	for _, c := range struck {
		groups[c.group].Dry = true
		groups = append(groups, c.strikes()...)
	}
	claims, parts := stint.Sizes(groups)
	out := make([]stint.Decision, claims)
	errs, whole := storekit.PartErrors(e.store.inner.TakeGroups(ctx, groups, out), parts)
	if whole != nil {
		return whole
	}
	copy(e.out, out)
	if errs == nil {
		shareOut(struck, out[len(e.out):])
	} else if errs = errs[:own]; slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		return &stint.GroupsError{Errs: errs}
	}
	return nil
}

// punished reports whether the claims of the caller are denied whatever its
// limits allow.
func (c *caller) punished() bool { return c.left > 0 && !c.peeks }

// findKinds finds out the kinds of the punishments. If the store did not tell, they count
// as cool-downs.
func (e *evaluation) findKinds() {
	for i := range e.callers {
		c := &e.callers[i]
		switch {
		case c.kind != stint.NoPenalty || c.left <= 0:
		case c.strike == nil:
			c.kind = stint.CoolDown
		default:
			c.kind = c.penalty.KindOf(c.left, &c.strike[2])
		}
	}
}

// applyPunishments applies the punishments to the decisions. A degraded decision, in which the
// store had no part, stays as it is unless the gate was confirmed: penalties can be in another
// store than the rule, and hold while that of the rule fails.
func (e *evaluation) applyPunishments() {
	e.findKinds()
	for i := range e.callers {
		c := &e.callers[i]
		if c.left <= 0 {
			continue
		}
		if !c.peeks {
			e.store.observer.Denied(c.rule)
		}
		for j := range c.claims {
			if d := &e.out[c.first+j]; !d.Degraded || c.confirmed() {
				c.applyTo(d)
			}
		}
	}
}

// confirmed reports whether the store told in the call that decided the claims that the caller
// is punished.
func (c *caller) confirmed() bool {
	return c.punished() && c.strike != nil && !c.strike[1].Degraded
}

// applyTo applies a punishment to one decision. A peek stays allowed and sees that
// nothing remains.
func (c *caller) applyTo(d *stint.Decision) {
	if !c.peeks && c.left >= d.RetryAfter { // otherwise the limit takes longer than the punishment
		d.Penalty = c.kind
	}
	d.Remaining, d.Delay, d.Granted, d.Degraded = 0, 0, 0, false
	d.ResetAfter, d.NextAfter = max(d.ResetAfter, c.left), max(d.NextAfter, c.left)
	if !c.peeks {
		d.Allowed, d.RetryAfter = false, max(d.RetryAfter, c.left)
	}
}
