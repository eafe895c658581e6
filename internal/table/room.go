package table

// looked is how many states, from an identity's home on, are judged when one
// must go. Empty slots are passed: few wide states fill a table's weight, and
// stand far apart.
const looked = 16

// tidy makes a slot free for a newcomer, unless the shard is as great as it
// gets, and now and then reclaims what is idle.
func (s *Shard) tidy(now int64) {
	due := now >= s.sweep && !s.table.keepAll
	switch {
	case s.count >= s.limit && (due || s.len() < s.table.most), due && s.count > 0:
		s.rebuild(now)
	case due:
		s.sweep = now + sweepEvery
	}
}

// take takes weight for an identity, and sees that a slot is free: from what
// is free, else from idle states, else from those with the most left.
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

// Fit evicts states near an identity's home, but not its own, while more than
// the bound is held. It reports false when nothing more may go. Slots found
// before may have moved.
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

// evict drops the state with the most left among those near an identity's
// home, but not its own. Where the shard has fewer than are looked at, and all
// of them are exhausted, it looks at those of other shards too. It reports
// false when nothing may go.
func (s *Shard) evict(id ID, now int64) bool {
	victim, judged := s.victim(s.home(id.Hash), looked, &id, now)
	if victim >= 0 {
		s.giveUp(victim, now)
		return true
	}
	return judged < looked && s.evictElsewhere(looked-judged, now)
}

// otherShards is how many other shards are tried for a state to evict. A table
// of few states has about so many.
const otherShards = 256

// evictElsewhere looks at so many states of other shards. It waits for none of
// them: two that looked at each other would wait for ever, and the caller may
// have locked some itself.
func (s *Shard) evictElsewhere(most int, now int64) bool {
	t := s.table
	for range otherShards {
		other := &t.shards[t.lookup[t.hand.Add(1)&t.told.Load()].Load()]
		if other == s || !other.TryLock() {
			continue
		}
		victim, judged := other.victim(0, most, nil, now)
		if victim >= 0 {
			other.giveUp(victim, now)
		}
		other.Unlock()
		if most -= judged; victim >= 0 || most <= 0 {
			return victim >= 0
		}
	}
	return false
}

// victim returns the place of the state with the most left among so many, the
// first from a place on, but not that of an identity; below 0 when all are
// exhausted.
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

// giveUp drops the state at a place for want of room.
func (s *Shard) giveUp(place int, now int64) {
	if !s.idle(s.at(place), now) {
		s.table.evictions.Add(1)
	}
	s.deleteAt(place)
}

func (s *Shard) left(slot *Slot, now int64) int64 {
	return s.table.judge.Left(slot.Ref(), slot.State, s.Wide(slot), now)
}
