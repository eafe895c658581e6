package oracle

import (
	"maps"
	"slices"

	"github.com/stintdev/stint"
)

// mostChoices bounds how many ways of forgetting Follow tries for one call.
const mostChoices = 1 << 10

// Follow takes the groups and reports whether got is a right answer of a store
// that may forget a state once it equals a fresh one (law 4), but need not.
//
// Follow tries the ways of forgetting one by one. When one of them gives the
// answer got, Follow returns that answer and keeps the resulting states. When
// none of them does, it returns the answer of a store that forgets nothing, and
// keeps the states of such a store.
func (m *Model) Follow(now int64, groups []stint.Group, got []stint.Decision) (want []stint.Decision, ok bool) {
	m.see(now)
	before := maps.Clone(m.keys)
	most := 0 // the greatest number of choices in any way so far; a way that forgets a state early has fewer
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

// ForgetIdle forgets every state that a store may forget once it has seen the
// time now.
func (m *Model) ForgetIdle(now int64) {
	m.see(now)
	maps.DeleteFunc(m.keys, func(_ identity, k kept) bool { return k.idle() })
}

// takeForgetting takes the groups. Of the idle states that it meets, it forgets
// the i-th if bit i of way is set. It returns how many it met.
func (m *Model) takeForgetting(now int64, groups []stint.Group, way int) (answer []stint.Decision, choices int) {
	m.forget = func() bool {
		choices++
		return way>>(choices-1)&1 == 1
	}
	answer = m.TakeGroups(now, groups)
	m.forget = nil
	return answer, min(choices, 20)
}

// see records in every state that the store has seen the time now.
func (m *Model) see(now int64) {
	for id, k := range m.keys {
		k.seen = max(k.seen, now)
		m.keys[id] = k
	}
}

// lookup returns the state of a key, or nil.
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

// idle reports whether the state has equalled a fresh one at some time seen.
func (k kept) idle() bool {
	r := k.limit.read(k.state)
	return r.fresh(max(k.seen, r.newest()))
}
