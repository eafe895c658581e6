package table

// wides holds the slices of a shard's wide states. The slices are in the Go heap
// and contain no pointers.
type wides struct {
	slices [][]int64
	free   []int // unused indices of slices
	weight int   // weight of all slices, without their slots
}

// wordsPerWeight is how many words of a slice weigh as much as a slot.
const wordsPerWeight = slotSize / 8

func weightOf(words int) int { return (words + wordsPerWeight - 1) / wordsPerWeight }

// Wide returns the slice of a wide state, or nil for a narrow state or a nil
// slot. The table owns the slice. A caller that changes its length must call
// [Shard.SetWide].
func (s *Shard) Wide(slot *Slot) []int64 {
	if slot == nil || !slot.wide() {
		return nil
	}
	return s.wides.slices[slot.State.Hi]
}

// SetWide stores a slice after a change within its capacity.
func (s *Shard) SetWide(slot *Slot, w []int64) { s.wides.slices[slot.State.Hi] = w }

// Widen returns the slot of an identity with a slice of at least the given
// capacity beside it. It makes the slot and the slice as needed, and keeps the
// content of the slice. made reports whether it made the slot, with the given
// reference. When there is no room and no state may be evicted, it counts the
// state as unstored and returns nil.
//
// Slots found before may have moved. The state of the identity itself may have
// been dropped as idle.
func (s *Shard) Widen(id ID, ref uint32, capacity int, now int64) (slot *Slot, made bool) {
	s.tidy(now)
	have := 0
	if slot = s.Find(id); slot != nil {
		have = 1 + weightOf(cap(s.Wide(slot)))
	}
	whole := 1 + weightOf(capacity)
	more := whole - have
	if !s.table.fits(whole) || !s.take(id, more, now) {
		return nil, false
	}
	if made = slot == nil; made {
		s.put(Slot{hash: id.Hash, tag: id.tag(), ref: ref | wideBit, State: State{Hi: s.newWide()}})
		s.wides.weight--
	}
	slot = s.Find(id)
	s.wides.slices[slot.State.Hi] = append(make([]int64, 0, capacity), s.Wide(slot)...)
	s.wides.weight += more
	return slot, made
}

// newWide returns a free index for a slice.
func (s *Shard) newWide() uint64 {
	if s.wides == nil {
		s.wides = &wides{}
	}
	w := s.wides
	if n := len(w.free); n > 0 {
		place := w.free[n-1]
		w.free = w.free[:n-1]
		return uint64(place)
	}
	w.slices = append(w.slices, nil)
	return uint64(len(w.slices) - 1)
}

// handOver moves the slice of a slot, if it has one, to another shard. It
// returns the slot as the other shard must store it.
func (s *Shard) handOver(slot Slot, to *Shard) Slot {
	if slot.wide() {
		slice := s.wides.slices[slot.State.Hi]
		s.dropWide(&slot)
		slot.State.Hi = to.newWide()
		to.wides.slices[slot.State.Hi] = slice
		to.wides.weight += weightOf(cap(slice))
	}
	return slot
}

// dropWide frees the slice of a slot, if it has one, and returns its weight.
func (s *Shard) dropWide(slot *Slot) int {
	if !slot.wide() {
		return 0
	}
	w, place := s.wides, int(slot.State.Hi)
	weight := weightOf(cap(w.slices[place]))
	w.slices[place] = nil
	w.free = append(w.free, place)
	w.weight -= weight
	return weight
}
