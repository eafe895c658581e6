package table

import (
	"sync"
	"sync/atomic"
)

// Shard is a part of a [Table] with its own lock. Every method but Lock and
// Unlock needs it locked.
type Shard struct {
	sync.Mutex

	slots []Slot // empty ones have ref 0; there is always one
	count int    // used slots
	limit int    // used slots at which the shard is rebuilt

	size   atomic.Int64 // len(slots), read without the lock
	sweep  int64        // when a newcomer next looks for idle states
	wides  *wides       // slices beside the table; nil until there is one
	table  *Table
	number int
}

// Find returns the slot of an identity, nil when there is none. The slot
// stays where it is until the shard is next changed or searched.
func (s *Shard) Find(id ID) *Slot {
	for i := home(id.Hash, len(s.slots)); ; i = s.next(i) {
		slot := &s.slots[i]
		if slot.is(id) && slot.ref != 0 {
			return slot
		}
		if slot.ref == 0 {
			return nil
		}
	}
}

// Insert stores the state of an identity that has no slot. It reports false,
// and counts it, when there is no room and nothing that may go.
func (s *Shard) Insert(id ID, ref uint32, state State, now int64) bool {
	s.tidy(now)
	if !s.take(id, 1, now) {
		return false
	}
	s.put(Slot{hash: id.Hash, tag: id.Tag, ref: ref, State: state})
	return true
}

// Delete drops a slot that [Shard.Find] returned.
func (s *Shard) Delete(id ID) {
	for i := home(id.Hash, len(s.slots)); s.slots[i].ref != 0; i = s.next(i) {
		if s.slots[i].is(id) {
			s.deleteAt(i)
			return
		}
	}
}

func (s *Shard) next(i int) int {
	if i++; i == len(s.slots) {
		return 0
	}
	return i
}

// put places a slot that is not in the shard.
func (s *Shard) put(slot Slot) {
	i := home(slot.hash, len(s.slots))
	for s.slots[i].ref != 0 {
		i = s.next(i)
	}
	s.slots[i] = slot
	s.count++
}

// deleteAt empties a slot, gives its weight back, and closes the gap: the
// slots behind it that probing would no longer reach move up.
func (s *Shard) deleteAt(gap int) {
	s.table.release(1 + s.dropWide(&s.slots[gap]))
	s.count--
	for i := s.next(gap); s.slots[i].ref != 0; i = s.next(i) {
		if s.reaches(home(s.slots[i].hash, len(s.slots)), gap, i) {
			s.slots[gap] = s.slots[i]
			gap = i
		}
	}
	s.slots[gap] = Slot{}
}

// reaches reports whether probing from a home comes past the gap before i.
func (s *Shard) reaches(home, gap, i int) bool {
	if gap <= i {
		return home <= gap || home > i
	}
	return home <= gap && home > i
}
