// Package penalty punishes callers that keep exceeding their limits. It is a
// store that wraps another store and denies, for a time, requests that the
// limits would allow.
//
// The state of a caller is the state of a [rule.Penalty]'s limits in the
// wrapped store. Nodes that share that store therefore punish together, and
// resetting the state ends a punishment. The package keeps no state of its own
// and reads no clock.
//
// A claim of a rule with a penalty costs one more call to the wrapped store,
// which writes nothing. Any other claim costs a map lookup, or only a load while
// no rule has a penalty. While the store does not answer, nobody is punished.
package penalty

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// Observer is notified of punishments. Its methods are called concurrently and
// must return soon.
type Observer interface {
	// Began is called when a punishment begins. The observer may keep the argument.
	Began(*Punishment)
	// Denied is called when a punishment under the rule denies a request that the
	// limits might have allowed.
	Denied(rule string)
}

// Punishment is a punishment that has begun.
type Punishment struct {
	Rule string        // id of the rule
	Key  string        // key of the caller; do not show it whole
	For  time.Duration // duration from now
	Kind stint.PenaltyKind
}

// Store is a [stint.Store] that punishes. Make it by [New]. It is safe for
// concurrent use.
type Store struct {
	inner    stint.Store
	observer Observer
	hot      func(l stint.Limit, key string) bool // nil: no key is hot
	inForce  atomic.Pointer[inForce]
}

// inForce holds the penalties of a rule set.
type inForce struct {
	penalties map[stint.Limit]*rule.Penalty
	// byLimit holds penalties, and those of the same rules under the limits of the
	// set before: requests that are being decided while the rules change still
	// claim those.
	byLimit map[stint.Limit]*rule.Penalty
}

// New returns a store without rules. It punishes nobody until Use is called. hot reports
// whether a key of a limit is hot, for rules that ban hot keys; nil: no key is.
func New(inner stint.Store, o Observer, hot func(l stint.Limit, key string) bool) *Store {
	return &Store{inner: inner, observer: o, hot: hot}
}

// Use puts the penalties of a rule set in force, and those of a canary beside it.
// Punishments that have begun continue. Use must not be called concurrently.
func (s *Store) Use(sets ...*rule.Set) {
	now := &inForce{penalties: make(map[stint.Limit]*rule.Penalty)}
	byRule := make(map[string]*rule.Penalty)
	for _, set := range slices.Backward(sets) { // the first set decides about limits of the sets before
		for l, p := range set.Penalties() {
			now.penalties[l], byRule[l.Rule()] = p, p
		}
	}
	now.byLimit = maps.Clone(now.penalties)
	if before := s.inForce.Load(); before != nil {
		for l := range before.penalties {
			if p := byRule[l.Rule()]; p != nil {
				now.byLimit[l] = p
			}
		}
	}
	s.inForce.Store(now)
}

// Take decides one claim.
func (s *Store) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	p := s.penaltyOf(&c)
	if p == nil {
		return s.inner.Take(ctx, c)
	}
	gate, err := s.inner.Take(ctx, stint.Claim{Key: c.Key, Limit: p.Gate})
	if err == nil && gate.ResetAfter > 0 {
		return s.takePunished(ctx, c, gate.ResetAfter)
	}
	blind := err != nil || gate.Degraded
	if !blind && s.isHot(p, &c) {
		return s.takePunished(ctx, c, 0)
	}
	d, err := s.inner.Take(ctx, c) // reports an error of the store itself
	if err != nil || d.Allowed || blind {
		return d, err
	}
	return s.recordStrike(ctx, c, d), nil
}

// penaltyOf returns the penalty that applies to the claim, or nil.
func (s *Store) penaltyOf(c *stint.Claim) *rule.Penalty {
	now := s.inForce.Load()
	if now == nil || len(now.byLimit) == 0 || c.Cost < 0 {
		return nil
	}
	return now.byLimit[c.Limit]
}

// isHot reports whether the claim's key is hot and the penalty bans hot keys.
func (s *Store) isHot(p *rule.Penalty, c *stint.Claim) bool {
	return p.HotKey > 0 && s.hot != nil && c.Cost > 0 && s.hot(c.Limit, c.Key)
}

// takePunished decides a claim of a caller whose punishment has the given time
// left, or begins now because its key is hot.
func (s *Store) takePunished(ctx context.Context, c stint.Claim, left time.Duration) (stint.Decision, error) {
	e := evaluation{store: s, groups: []stint.Group{{Claims: []stint.Claim{c}}}, out: make([]stint.Decision, 1)}
	e.findCallers()
	for i := range e.callers { // empty if the rules have just changed
		e.callers[i].left = left
	}
	err := e.apply(ctx)
	if groups, ok := errors.AsType[*stint.GroupsError](err); ok {
		err = groups.Errs[0]
	}
	return e.out[0], err
}

// recordStrike records the strike for a claim that its limit has denied, and returns
// the decision.
func (s *Store) recordStrike(ctx context.Context, c stint.Claim, d stint.Decision) stint.Decision {
	e := evaluation{store: s, groups: []stint.Group{{Claims: []stint.Claim{c}}}, out: []stint.Decision{d}}
	e.findCallers()
	e.strike(ctx)
	e.applyPunishments()
	return e.out[0]
}

// TakeGroups decides groups.
func (s *Store) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	for i := range groups {
		for j := range groups[i].Claims {
			if s.penaltyOf(&groups[i].Claims[j]) != nil {
				return s.takeWithPenalties(ctx, groups, out)
			}
		}
	}
	return s.inner.TakeGroups(ctx, groups, out)
}

// takeWithPenalties decides groups of which at least one may be punished.
func (s *Store) takeWithPenalties(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	e := evaluation{store: s, groups: groups, out: out}
	e.findCallers()
	if len(e.callers) == 0 || e.lookUp(ctx) != nil {
		return s.inner.TakeGroups(ctx, groups, out) // reports an error of the store itself
	}
	return e.apply(ctx)
}
