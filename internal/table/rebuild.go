package table

// A shard is rebuilt when its load passes 0.80, to a load of at most 0.72. It
// therefore grows by about a tenth at a time, and each key moves about ten times
// in its life.
const (
	loadDen     = 100
	fullLoadNum = 80
	growLoadNum = 72
)

// sweepEvery is the least time, in microseconds, between two rebuilds of a shard
// that only drop idle states. New keys trigger them.
const sweepEvery = 10_000_000

// linger is how long a state is kept after it has become idle, in microseconds.
// If its limit changes within that time, the new limit still sees the use.
const linger = 15_000_000

// rebuild drops the idle states and resizes the shard for the rest. It copies
// the states to scratch, clears the shard, and puts them back.
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

// collect drops the idle states and appends the others to kept, in the order of
// the shard.
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

// sizeFor returns the size in slots for the given number of keys. It keeps the
// present size unless that is too small or more than twice too great.
func (s *Shard) sizeFor(keys int) int {
	want := min(wholePages(keys), s.table.most)
	if want > s.len() || want*2 < s.len() {
		return want
	}
	return s.len()
}

// windows returns the windows that hold the shard's slots: early or late.
func (s *Shard) windows() *windows { return s.table.arena.of(s.late()) }

// resize changes the number of slots. The content of the slots is undefined
// afterwards.
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
		return // the shard does not exist yet
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

// borrow returns a scratch slice with room for the given number of slots.
func (t *Table) borrow(slots int) *[]Slot {
	if scratch, ok := t.scratch.Get().(*[]Slot); ok && cap(*scratch) >= slots {
		return scratch
	}
	scratch := make([]Slot, 0, slots+slots/8)
	return &scratch
}
