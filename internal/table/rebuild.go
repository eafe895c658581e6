package table

// The load of a shard: rebuilt when it passes 0.80, to at most 0.72. So it
// grows by about a tenth, and each key is moved some ten times in its life.
const (
	loadDen     = 100
	fullLoadNum = 80
	growLoadNum = 72
)

// sweepEvery is how often newcomers may have a shard rebuilt to find its idle
// states, in microseconds.
const sweepEvery = 10_000_000

// linger is for how long a state is kept when it has become idle, in
// microseconds: a limit that changes meanwhile finds what was used.
const linger = 15_000_000

// rebuild drops the idle states and gives the shard the size that suits the
// rest. It copies to scratch, clears, and puts back.
func (s *Shard) rebuild(now int64) {
	s.sweep = now + sweepEvery
	scratch := s.table.borrow(int(s.count))
	defer s.table.scratch.Put(scratch)
	kept := s.collect((*scratch)[:0], now)
	s.resize(s.sizeFor(len(kept)))
	clear(s.all())
	s.count = 0
	for i := range kept {
		s.put(kept[i])
	}
}

// collect appends the states that are worth keeping, in the order of the
// shard.
func (s *Shard) collect(kept []Slot, now int64) []Slot {
	dropped := 0
	for i := range s.len() {
		slot := s.at(i)
		switch {
		case slot.ref == 0:
		case s.idle(slot, now-linger):
			s.table.judge.Dropped(slot.Ref())
			dropped += 1 + s.dropWide(slot)
		default:
			kept = append(kept, *slot)
		}
	}
	if dropped > 0 {
		s.table.release(dropped)
	}
	return kept
}

func (s *Shard) idle(slot *Slot, now int64) bool {
	return !s.table.keepAll && s.table.judge.Idle(slot.Ref(), slot.State, s.Wide(slot), now)
}

// sizeFor is the size for so many keys: as it is unless too small, or more
// than twice too great.
func (s *Shard) sizeFor(keys int) int {
	want := min(wholePages(keys), s.table.most)
	if want > s.len() || want*2 < s.len() {
		return want
	}
	return s.len()
}

// windows are where the shard has its slots.
func (s *Shard) windows() *windows { return s.table.arena.of(s.late()) }

// resize gives the shard so many slots. What they hold is undefined.
func (s *Shard) resize(slots int) {
	w := s.windows()
	w.release(int(s.number), slots, s.len())
	s.slots = w.window(int(s.number), slots)
	s.limit = uint32(slots * fullLoadNum / loadDen)
	s.size.Store(uint32(slots))
	entry := uint32(slots)
	if s.late() {
		entry |= lateBit
	}
	s.table.sizes[s.number].Store(entry)
}

// clear forgets every state.
func (s *Shard) clear() {
	if s.slots == nil {
		return // there is no such shard yet
	}
	for i := range s.len() {
		if slot := s.at(i); slot.ref != 0 {
			s.table.judge.Dropped(slot.Ref())
		}
	}
	weight := int(s.count)
	if s.wides != nil {
		weight += s.wides.weight
	}
	s.table.release(weight)
	s.count, s.wides = 0, nil
	s.resize(smallSlots)
	clear(s.all())
}

// borrow returns scratch with room for so many slots.
func (t *Table) borrow(slots int) *[]Slot {
	if scratch, ok := t.scratch.Get().(*[]Slot); ok && cap(*scratch) >= slots {
		return scratch
	}
	scratch := make([]Slot, 0, slots+slots/8)
	return &scratch
}
