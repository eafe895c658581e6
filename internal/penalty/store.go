// Package penalty punishes callers that keep hitting their limits: a store that
// wraps a store, and denies for a while what the limits would allow.
//
// What it knows of a caller is the state of a [rule.Penalty]'s limits in the
// store that it wraps, so that nodes that share the store punish together, and
// resetting that state forgives. It keeps nothing itself and reads no clock.
//
// A claim without [stint.Policy.Penalty] costs one comparison. One with it is
// looked up first: a call more, which writes nothing. While the store does not
// answer nobody is punished.
package penalty

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// Observer hears of punishments. Its methods are called by many goroutines at
// once, and return soon.
type Observer interface {
	// Began is called when a punishment begins. What it is given is its own.
	Began(*Punishment)
	// Denied is called when a punishment of a rule denies what its limits may
	// have allowed.
	Denied(rule string)
}

// Punishment is one that has begun.
type Punishment struct {
	Rule string        // its id
	Key  string        // of the caller: not to be shown whole
	For  time.Duration // from now on
	Ban  bool          // else a cool-down
}

// Store is a [stint.Store] that punishes. Make it by [New]. It is safe for use
// by many goroutines at once.
type Store struct {
	inner    stint.Store
	observer Observer
	rules    atomic.Pointer[map[string]*rule.Penalty] // by id
}

// New returns a store without rules, which punishes nobody.
func New(inner stint.Store, o Observer) *Store {
	return &Store{inner: inner, observer: o}
}

// Use puts the penalties of a rule set in force. A punishment that has begun
// goes on.
func (s *Store) Use(set *rule.Set) {
	all := make(map[string]*rule.Penalty)
	for _, r := range set.Rules() {
		if r.Policy.Penalty {
			all[r.ID] = r.Penalty
		}
	}
	s.rules.Store(&all)
}

// Take decides one claim.
func (s *Store) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	p := s.penaltyOf(&c)
	if p == nil {
		return s.inner.Take(ctx, c)
	}
	gate, err := s.inner.Take(ctx, stint.Claim{Key: c.Key, Limit: p.Gate})
	if err == nil && gate.ResetAfter > 0 {
		return s.punished(ctx, c, gate.ResetAfter)
	}
	blind := err != nil || gate.Degraded
	d, err := s.inner.Take(ctx, c) // which says what is wrong
	if err != nil || d.Allowed || blind {
		return d, err
	}
	return s.struck(ctx, c, d), nil
}

// penaltyOf is what may await who makes the claim; nil: nothing.
func (s *Store) penaltyOf(c *stint.Claim) *rule.Penalty {
	if !c.Policy.Penalty || c.Cost < 0 || !c.Limit.Valid() {
		return nil
	}
	rules := s.rules.Load()
	if rules == nil {
		return nil
	}
	return (*rules)[c.Limit.Rule()]
}

// punished decides a claim of one who is punished for so long.
func (s *Store) punished(ctx context.Context, c stint.Claim, left time.Duration) (stint.Decision, error) {
	t := evaluation{store: s, groups: []stint.Group{{Claims: []stint.Claim{c}}}, out: make([]stint.Decision, 1)}
	t.findCallers()
	for i := range t.callers { // none if the rules have just changed
		t.callers[i].left = left
	}
	err := t.hold(ctx)
	if groups, ok := errors.AsType[*stint.GroupsError](err); ok {
		err = groups.Errs[0]
	}
	return t.out[0], err
}

// struck is the decision on a claim that its limit has denied.
func (s *Store) struck(ctx context.Context, c stint.Claim, d stint.Decision) stint.Decision {
	t := evaluation{store: s, groups: []stint.Group{{Claims: []stint.Claim{c}}}, out: []stint.Decision{d}}
	t.findCallers()
	t.strike(ctx)
	t.tell()
	return t.out[0]
}

// TakeGroups decides groups.
func (s *Store) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	for i := range groups {
		for j := range groups[i].Claims {
			if groups[i].Claims[j].Policy.Penalty {
				return s.punishing(ctx, groups, out)
			}
		}
	}
	return s.inner.TakeGroups(ctx, groups, out)
}

// punishing decides groups of which one at least may be punished.
func (s *Store) punishing(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	t := evaluation{store: s, groups: groups, out: out}
	t.findCallers()
	if len(t.callers) == 0 || t.lookUp(ctx) != nil {
		return s.inner.TakeGroups(ctx, groups, out) // which says what is wrong
	}
	return t.hold(ctx)
}
