package stint

import (
	"github.com/stintdev/stint/internal/table"
)

// states holds the states of keys and the limits that these states use. A
// memory store has two of them. The limits that callers bring have their own,
// so that a flood of them takes no room, no lock and no reference from the
// limits of rules.
type states struct {
	table  *table.Table
	limits registry
	// refuses makes the table refuse a charge that finds no room. If false, such a charge is
	// decided as fresh and not stored.
	refuses bool
}

func (s *states) init(bound int, keepAll bool) {
	s.limits.init()
	s.table = table.New(table.Options{Bound: bound, KeepAll: keepAll, Judge: &s.limits})
}

// callerStates returns the states for the limits that callers bring. Most
// programs have no such limits, and a second table doubles the memory of an
// empty store, so the first claim makes it.
func (m *Memory) callerStates() *states {
	if s := m.callers.Load(); s != nil {
		return s
	}
	m.opening.Lock()
	defer m.opening.Unlock()
	s := m.callers.Load()
	if s == nil {
		s = &states{refuses: true}
		s.init(m.callerKeys, m.keepAll)
		s.limits.charged = s.table // the bound covers the limits as well as the states
		m.callers.Store(s)
	}
	return s
}

// errNoRoom refuses a charge under a caller's limit. To admit the charge
// uncounted, or to evict an exhausted key for it, would let callers evade
// limits.
func errNoRoom() error {
	return &Error{Code: CodeExhausted, Kind: KindCallerBudget, Problem: "the memory store has no room for another key of limits that callers bring",
		Mend: "give it a greater MemoryOptions.CallerKeys, or let fewer callers bring limits of their own"}
}

// reserve makes room for a charge to a key that has a state. It changes neither
// the count nor the limit of that state. It reports false when there is no room.
func (s *states) reserve(shard *table.Shard, q *query, a *input) bool {
	ref := s.limits.hold(q.n)
	if !shard.Fit(q.id, a.now) || q.n.wide() && !s.growsWide(shard, q, a) {
		s.limits.release(ref)
		return false
	}
	q.reserved = ref
	return true
}
