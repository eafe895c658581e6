package stint

import (
	"slices"

	"github.com/stintdev/stint/internal/table"
)

// CopyState gives a key the state that it has in another store under a limit, so that the
// key continues here as it would there. It replaces the state that the key has here. The
// stores may differ in everything else: each has its own secrets and its own clock. Results
// that are kept for repeated requests ([Once]) are not copied.
//
// It locks one store after the other, never both, so any number of copies may run at once, in
// both directions. What either store charges to the key during the copy may be missing here
// afterwards: a program that needs an exact copy stops taking from the key meanwhile.
//
// A store that is full may have no room for the state; the key is then as if never used.
// The error is that of [Memory.Take] for such a key and limit.
func (m *Memory) CopyState(from *Memory, l Limit, key string) error {
	if !m.made() || !from.made() {
		return errNoMemory
	}
	var q query
	if err := m.prepare(&q, &Claim{Key: key, Limit: l}); err != nil {
		return err
	}
	if from == m {
		return nil
	}
	copied := from.copied(l.n, key)
	now := m.clock.Now()
	shard := q.states.table.Shard(q.id)
	shard.LockAt(now)
	shard = q.states.table.Relock(shard, q.id)
	shard.Delete(q.id)
	if copied.n != nil && !q.states.insert(shard, &q, &copied, now) && q.states.refuses {
		shard.Release(now)
		return errNoRoom()
	}
	shard.Release(now)
	return nil
}

// copiedState is the state of a key and the limit that it was written under.
type copiedState struct {
	n      *compiledLimit // nil: there is no state
	narrow table.State
	wide   []int64
}

// copied returns a copy of the state of a key under a limit.
func (m *Memory) copied(n *compiledLimit, key string) (c copiedState) {
	s := &m.states
	if n.fromCaller {
		s = m.callerStates()
	}
	id := m.secrets.identify(key, &n.salt)
	shard := s.table.Shard(id)
	shard.Lock()
	shard = s.table.Relock(shard, id)
	defer shard.Unlock()
	if slot := shard.Find(id); slot != nil {
		c = copiedState{s.limits.at(slot.Ref()), slot.State, slices.Clone(shard.Wide(slot))}
	}
	return c
}

// insert stores a copied state for a key without one. It reports false when there is no room.
func (s *states) insert(shard *table.Shard, q *query, c *copiedState, now int64) bool {
	ref := s.limits.hold(c.n)
	if !c.n.wide() {
		if shard.Insert(q.id, ref, c.narrow, now) {
			return true
		}
	} else if slot, made := shard.Widen(q.id, ref, len(c.wide), now); made {
		shard.SetWide(slot, append(shard.Wide(slot), c.wide...))
		return true
	}
	s.limits.release(ref)
	return false
}
