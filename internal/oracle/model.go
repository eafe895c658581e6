// Package oracle is an exact model of every algorithm. It implements the
// definitions of docs/choosing-an-algorithm.md in integers of any size, slowly and
// plainly.
//
// Use it in tests, to check a store. The model searches for waits instead of
// computing them: a wait is the least number of microseconds after which the
// definition holds. Nothing is packed, bounded or rounded, so the model cannot
// overflow. It shares no arithmetic with the steps that it checks.
//
// The package promises answers that follow those definitions. It does not
// validate claims: they must be valid.
package oracle

import "github.com/stintdev/stint"

// Model keeps the state of every key. The zero value is not usable; see [New].
// It is not safe for concurrent use.
type Model struct {
	keys   map[identity]kept
	limits map[stint.Limit]*limit
	forget func() bool // reports whether to forget an idle state on lookup; nil: never
}

// New returns a model in which no key has a state.
func New() *Model {
	return &Model{keys: map[identity]kept{}, limits: map[stint.Limit]*limit{}}
}

// identity identifies a state. It does not include the numbers of the limit.
type identity struct {
	namespace, rule, name, shape, key string
	fromCaller                        bool
}

// kept is a stored state.
type kept struct {
	state any    // the algorithm's state; replaced, never modified
	limit *limit // the limit of the last write
	seen  int64  // the latest time of any call since the last write
}

// Take decides one claim at now and charges it when allowed.
func (m *Model) Take(now int64, c stint.Claim) stint.Decision {
	return m.TakeGroups(now, []stint.Group{{Claims: []stint.Claim{c}}})[0]
}

// TakeGroups decides the groups one after the other, all at now.
func (m *Model) TakeGroups(now int64, groups []stint.Group) []stint.Decision {
	var out []stint.Decision
	for _, g := range groups {
		decisions, admitted := m.group(now, g.Claims, !g.Dry)
		out = append(out, decisions...)
		for _, shadow := range g.Shadows {
			decisions, _ = m.group(now, shadow, admitted && !g.Dry)
			out = append(out, decisions...)
		}
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

// write replaces a state. The nil state removes it.
func (m *Model) write(now int64, id identity, l *limit, state any) {
	if state == nil {
		delete(m.keys, id)
		return
	}
	m.keys[id] = kept{state, l, now}
}
