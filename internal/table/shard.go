package table

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// Shard is a part of a [Table] with its own lock. The lock must be held for
// every method but Lock, LockAt, TryLock, Wait and Number. A Shard fills a cache
// line.
type Shard struct {
	mu    sync.Mutex
	slots unsafe.Pointer // *[size]Slot
	size  atomic.Uint32  // written with the lock held, also read without it
	count uint32         // used slots
	limit uint32         // used slots at which the shard is rebuilt

	number    uint32
	mask      uint32        // the bits of a tag that must equal number
	contended atomic.Uint32 // low bits of the time of the last contention; also read without the lock
	sweep     int64         // when a new key next triggers a search for idle states
	wides     *wides        // slices beside the table; nil until there is one
	_         [3 * (8 - pointerSize)]byte
	table     *Table // the last field: Go adds padding after a final field of size zero
}

const pointerSize = unsafe.Sizeof(uintptr(0))

// This assignment compiles only if a shard has shardSize.
var _ [shardSize]byte = [unsafe.Sizeof(Shard{})]byte{}

// A goroutine that waits for a shard spins before it blocks. It tries the lock
// looks times, and executes some pause instructions before each attempt, of 10
// to 40 ns each on current processors: firstPauses before the first attempt,
// unless the shard is hot, and pauses before the others. The spinning takes at
// most 130 µs in all.
const (
	looks       = 8
	firstPauses = 4
	pauses      = 400
)

// hotWithin is the time in microseconds after a contention during which another
// one means that the shard has a hot key. Goroutines that share a hot key
// collide every few attempts; chance collisions are seldom this close together.
const hotWithin = 32

// Lock locks the shard. It is for cold paths.
func (s *Shard) Lock() {
	if !s.TryLock() {
		s.wait(firstPauses)
	}
}

// LockAt locks the shard at the time now. It is for hot paths, and is shorthand
// for [Shard.TryLock] and [Shard.Wait].
func (s *Shard) LockAt(now int64) {
	if !s.TryLock() {
		s.Wait(now)
	}
}

// Wait locks a shard that TryLock has just found locked, at the time now. It
// spins briefly, then blocks.
//
// Most holders release the lock within some tens of nanoseconds, so after a
// chance collision the first attempt comes soon. Goroutines that share a hot
// key return at once, and then all attempts are rare: each attempt takes the
// cache lines from the holder, and two goroutines that alternate do half the
// work of one. The spinning is long, because to block and to be woken costs as
// much as a hundred checks.
func (s *Shard) Wait(now int64) {
	first := uint32(firstPauses)
	if s.isHot(now) {
		first = pauses
	}
	s.wait(first)
	s.contended.Store(uint32(now))
}

// isHot reports whether goroutines contended for the shard within the last
// hotWithin. It needs no lock.
func (s *Shard) isHot(now int64) bool { return uint32(now)-s.contended.Load() < hotWithin }

// wait spins and then blocks for the lock. first is the number of pauses before
// the first attempt.
func (s *Shard) wait(first uint32) {
	for range looks {
		pause(first)
		if s.TryLock() {
			return
		}
		first = pauses
	}
	s.mu.Lock()
}

// TryLock locks the shard if it is free, and reports whether it did. In contrast
// to the methods that wait, it is small enough to be inlined.
func (s *Shard) TryLock() bool { return s.mu.TryLock() }

// Unlock unlocks the shard.
func (s *Shard) Unlock() { s.mu.Unlock() }

// Owns reports whether a locked shard still owns an identity. The shard may have
// been split since [Table.Shard] returned it.
func (s *Shard) Owns(id ID) bool { return id.tag()&s.mask == s.number }

// Relock unlocks a shard that does not own an identity and locks the one that
// does.
func (t *Table) Relock(s *Shard, id ID) *Shard {
	for !s.Owns(id) {
		s.Unlock()
		s = t.Shard(id)
		s.Lock()
	}
	return s
}

// at returns slot i, which is below size.
func (s *Shard) at(i int) *Slot { return (*Slot)(unsafe.Add(s.slots, i*slotSize)) }

// all returns the slots as a slice.
func (s *Shard) all() []Slot { return unsafe.Slice((*Slot)(s.slots), s.len()) }

func (s *Shard) len() int { return int(s.size.Load()) }

func (s *Shard) home(hash uint64) int { return home(hash, s.len()) }

// Find returns the slot of an identity, or nil when there is none. The pointer
// is valid until the next change or search of the shard, because Find may move
// slots.
func (s *Shard) Find(id ID) *Slot {
	home := s.home(id.Hash)
	for i := home; s.at(i).ref != 0; i = s.next(i) {
		if slot := s.at(i); slot.is(id) {
			if i-home >= 0 && i-home < slotsPerLine {
				return slot
			}
			return s.bringHome(slot, home)
		}
	}
	return nil
}

// bringHome swaps a slot that was found far from its home with the less recently
// used of the two slots there, so that probing for a frequent key reads one
// cache line. Probing still finds the slot that moves away, because every slot
// in between is used.
func (s *Shard) bringHome(slot *Slot, home int) *Slot {
	idler := s.at(home)
	if other := s.at(home + 1); other.State.Hi < idler.State.Hi { // the high bits of most states are a time
		idler = other
	}
	*slot, *idler = *idler, *slot
	return idler
}

// AtHome is a fast Find for a narrow state that lies in the slot where probing
// begins, as most do, and was stored with the given reference. It returns nil
// for every other state. It is small enough to be inlined.
func (s *Shard) AtHome(id ID, ref uint32) *Slot {
	slot := s.at(s.home(id.Hash))
	if slot.is(id) && slot.ref == ref {
		return slot
	}
	return nil
}

// Insert stores the state of an identity that has no slot. When there is no room
// and no state may be evicted, it counts the state as unstored and reports
// false.
func (s *Shard) Insert(id ID, ref uint32, state State, now int64) bool {
	s.tidy(now)
	if !s.take(id, 1, now) {
		return false
	}
	s.put(Slot{hash: id.Hash, tag: id.tag(), ref: ref, State: state})
	return true
}

// Delete drops the state of an identity, if there is one.
func (s *Shard) Delete(id ID) {
	for i := s.home(id.Hash); s.at(i).ref != 0; i = s.next(i) {
		if s.at(i).is(id) {
			s.deleteAt(i)
			return
		}
	}
}

func (s *Shard) next(i int) int {
	if i++; i == s.len() {
		return 0
	}
	return i
}

// put adds a slot whose identity is not in the shard.
func (s *Shard) put(slot Slot) {
	i := s.home(slot.hash)
	for s.at(i).ref != 0 {
		i = s.next(i)
	}
	*s.at(i) = slot
	s.count++
}

// deleteAt empties a slot and releases its weight. It closes the gap by moving
// up the slots behind it that probing would no longer reach.
func (s *Shard) deleteAt(gap int) {
	s.table.judge.Dropped(s.at(gap).Ref())
	s.table.release(1 + s.dropWide(s.at(gap)))
	s.count--
	for i := s.next(gap); s.at(i).ref != 0; i = s.next(i) {
		if comesPast(s.home(s.at(i).hash), gap, i) {
			*s.at(gap) = *s.at(i)
			gap = i
		}
	}
	*s.at(gap) = Slot{}
}

// comesPast reports whether probing from a home reaches the gap before i.
func comesPast(home, gap, i int) bool {
	if gap <= i {
		return home <= gap || home > i
	}
	return home <= gap && home > i
}
