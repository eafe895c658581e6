package table

// A full table evicts a state to make room for a new one: of some states near the
// place of the new one, the state with the most allowance left, because dropping it
// gives away the least. A state that is exhausted is never evicted: a flood of new
// keys would otherwise free a caller that is being denied.

// evictionCandidates is how many states an eviction compares, from an identity's home on.
// Empty slots do not count, because a few wide states can fill the weight of a
// table and lie far apart.
const evictionCandidates = 16

// tidy rebuilds the shard when it needs room for a new key and can still grow,
// and when its sweep for idle states is due.
func (s *Shard) tidy(now int64) {
	due := now >= s.sweep && !s.table.keepAll
	switch {
	case s.count >= s.limit && (due || s.len() < s.table.most), due && s.count > 0:
		s.rebuild(now)
	case due:
		s.sweep = now + sweepEvery
	}
}

// take reserves weight for an identity, and ensures that a slot is free. It
// evicts states near the identity's home, those with the most allowance left
// first, until both are there. It reports false when no more states may be
// evicted.
func (s *Shard) take(id ID, weight int, now int64) bool {
	for s.count >= s.limit || !s.table.hold(weight) {
		s.table.full.Store(true)
		if !s.evict(id, now) {
			s.table.unstored.Add(1)
			return false
		}
	}
	return true
}

// Fit evicts states near an identity's home, but not its own, while the weight
// held exceeds the bound. It reports false when no more states may be evicted.
// Slots found before may have moved.
func (s *Shard) Fit(id ID, now int64) bool {
	for s.table.held.Load() > s.table.bound && !s.table.keepAll {
		s.table.full.Store(true)
		if !s.evict(id, now) {
			s.table.unstored.Add(1)
			return false
		}
	}
	return true
}

// evict drops the state with the most allowance left among those near an
// identity's home, but not its own. When the shard holds fewer than
// evictionCandidates states, and all of them are exhausted, it tries other shards too.
// It reports false when no state may be evicted.
func (s *Shard) evict(id ID, now int64) bool {
	victim, judged := s.victim(s.home(id.Hash), evictionCandidates, &id, now)
	if victim >= 0 {
		s.evictAt(victim, now)
		return true
	}
	return judged < evictionCandidates && s.evictElsewhere(evictionCandidates-judged, now)
}

// otherShards is how many other shards are tried for a state to evict. A table
// with few states has about this many shards.
const otherShards = 256

// evictElsewhere compares at most the given number of states of other shards and
// evicts one. It skips shards that are locked: two shards that waited for each
// other would deadlock, and the caller may hold the locks of some itself.
func (s *Shard) evictElsewhere(most int, now int64) bool {
	t := s.table
	for range otherShards {
		other := &t.shards[t.lookup[t.hand.Add(1)&t.tagBits.Load()].Load()]
		if other == s || !other.TryLock() {
			continue
		}
		victim, judged := other.victim(0, most, nil, now)
		if victim >= 0 {
			other.evictAt(victim, now)
		}
		other.Unlock()
		if most -= judged; victim >= 0 || most <= 0 {
			return victim >= 0
		}
	}
	return false
}

// victim returns the place of the state with the most allowance left among the
// first states from a place on, at most among of them, except the state of the
// identity but. The place is below 0 when all of them are exhausted. judged is
// the number of states compared.
func (s *Shard) victim(from, among int, but *ID, now int64) (place, judged int) {
	place, most := -1, int64(0)
	for i, steps := from, s.len(); judged < among && steps > 0 && s.count > 0; steps-- {
		if slot := s.at(i); slot.ref != 0 && (but == nil || !slot.is(*but)) {
			if left := s.left(slot, now); left > most {
				place, most = i, left
			}
			judged++
		}
		i = s.next(i)
	}
	return place, judged
}

// evictAt evicts the state at a place.
func (s *Shard) evictAt(place int, now int64) {
	if !s.idle(s.at(place), now) {
		s.table.evictions.Add(1)
	}
	s.deleteAt(place)
}

func (s *Shard) left(slot *Slot, now int64) int64 {
	return s.table.judge.Left(slot.Ref(), slot.State, s.Wide(slot), now)
}
