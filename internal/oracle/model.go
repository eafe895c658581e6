// Package oracle is an exact model of every algorithm: the definitions of
// DESIGN.md §5 and §6 in whole numbers of any size, slow and obvious.
//
// Use it in tests, to judge a store. A wait is not computed but searched: it
// is the least number of microseconds after which the definition says yes.
// Nothing is packed, bounded or rounded, so the model has no overflow, and it
// shares no arithmetic with the steps that it judges.
//
// It promises that its answers are those definitions. It does not check
// claims: what it is given must be valid.
package oracle

import "github.com/stintdev/stint"

// Model keeps the state of every key it was asked about. The zero value is
// not usable; see [New]. It is for one goroutine.
type Model struct {
	keys   map[identity]kept
	limits map[stint.Limit]*limit
	forget func() bool // asked when a state could have been forgotten; nil: never
}

// New returns a model in which no key has a state.
func New() *Model {
	return &Model{keys: map[identity]kept{}, limits: map[stint.Limit]*limit{}}
}

// identity is what a state belongs to: never the numbers of its limit.
type identity struct {
	namespace, rule, name, shape, key string
	fromCaller                        bool
}

// kept is a state at rest.
type kept struct {
	state any    // of the algorithm; never changed, only replaced
	limit *limit // it was last written under this one
	seen  int64  // the latest time that a call brought since then
}

// Take decides one claim at now and charges it when allowed.
func (m *Model) Take(now int64, c stint.Claim) stint.Decision {
	return m.TakeGroups(now, []stint.Group{{Claims: []stint.Claim{c}}})[0]
}

// TakeGroups decides the groups one after the other, all at now.
func (m *Model) TakeGroups(now int64, groups []stint.Group) []stint.Decision {
	var out []stint.Decision
	enforced := true // was the last group that is not shadow admitted?
	for _, g := range groups {
		decisions, admitted := m.group(now, g.Claims, !g.Shadow || enforced)
		if !g.Shadow {
			enforced = admitted
		}
		out = append(out, decisions...)
	}
	return out
}

func (m *Model) limit(l stint.Limit) *limit {
	if known, ok := m.limits[l]; ok {
		return known
	}
	m.limits[l] = newLimit(l)
	return m.limits[l]
}

func (m *Model) identify(c stint.Claim) identity {
	return identity{c.Limit.Namespace(), c.Limit.Rule(), c.Limit.Name(), m.limit(c.Limit).shape, c.Key, c.Limit.FromCaller()}
}

// write replaces a state; nil removes it.
func (m *Model) write(now int64, id identity, l *limit, state any) {
	if state == nil {
		delete(m.keys, id)
		return
	}
	m.keys[id] = kept{state, l, now}
}
