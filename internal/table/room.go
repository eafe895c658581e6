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

// evict drops the state with the most left among those near an identity's
// home, but not its own. It reports false when all are exhausted.
func (s *Shard) evict(id ID, now int64) bool {
	victim, most := -1, int64(0)
	i, judged := s.home(id.Hash), 0
	for steps := s.len(); judged < looked && steps > 0; steps-- {
		if slot := s.at(i); slot.ref != 0 && !slot.is(id) {
			if left := s.left(slot, now); left > most {
				victim, most = i, left
			}
			judged++
		}
		i = s.next(i)
	}
	if victim < 0 {
		return false
	}
	if !s.idle(s.at(victim), now) {
		s.table.evictions.Add(1)
	}
	s.deleteAt(victim)
	return true
}

func (s *Shard) left(slot *Slot, now int64) int64 {
	return s.table.judge.Left(slot.Ref(), slot.State, s.Wide(slot), now)
}
