package oracle

import (
	"maps"
	"slices"

	"github.com/stintdev/stint"
)

// mostChoices bounds how many ways of forgetting Follow tries for one call.
const mostChoices = 1 << 10

// Follow takes the groups and says whether got is the right answer, from a
// store that may forget a state once it equals a fresh one (law 4), but need
// not. When some way of forgetting explains the answer, the model goes on
// from there. Else it returns what a store that forgets nothing answers, and
// goes on from that.
func (m *Model) Follow(now int64, groups []stint.Group, got []stint.Decision) (want []stint.Decision, ok bool) {
	m.see(now)
	before := maps.Clone(m.keys)
	most := 0 // choices of any way; fewer where one forgets early what others still have
	for way := range mostChoices {
		m.keys = maps.Clone(before)
		answer, choices := m.takeForgetting(now, groups, way)
		most = max(most, choices)
		if slices.Equal(answer, got) {
			return answer, true
		}
		if way == 0 {
			want = answer
		}
		if way+1 >= 1<<most {
			break
		}
	}
	m.keys = before
	m.TakeGroups(now, groups)
	return want, false
}

// ForgetIdle forgets every state that a store may forget which has seen the
// time now.
func (m *Model) ForgetIdle(now int64) {
	m.see(now)
	maps.DeleteFunc(m.keys, func(_ identity, k kept) bool { return k.idle() })
}

// takeForgetting forgets the i-th state that could be, of those met, when bit
// i of way is set. It returns how many were met.
func (m *Model) takeForgetting(now int64, groups []stint.Group, way int) (answer []stint.Decision, choices int) {
	m.forget = func() bool {
		choices++
		return way>>(choices-1)&1 == 1
	}
	answer = m.TakeGroups(now, groups)
	m.forget = nil
	return answer, min(choices, 20)
}

// see notes for every state that the store has seen the time now.
func (m *Model) see(now int64) {
	for id, k := range m.keys {
		k.seen = max(k.seen, now)
		m.keys[id] = k
	}
}

// lookup returns the state of a key, nil for none.
func (m *Model) lookup(id identity) any {
	k, ok := m.keys[id]
	if !ok {
		return nil
	}
	if m.forget != nil && k.idle() && m.forget() {
		delete(m.keys, id)
		return nil
	}
	return k.state
}

// idle reports whether the state has equalled a fresh one.
func (k kept) idle() bool {
	r := k.limit.read(k.state)
	return r.fresh(max(k.seen, r.newest()))
}
