package table

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// Shard is a part of a [Table] with its own lock. Every method but Lock,
// LockAt, TryLock, Wait and Number needs it locked. It fills a cache line.
type Shard struct {
	mu    sync.Mutex
	slots unsafe.Pointer // *[size]Slot
	size  atomic.Uint32  // changes under the lock, read without it too
	count uint32         // used slots
	limit uint32         // used slots at which the shard is rebuilt

	number uint32
	mask   uint32        // the bits of a tag that number is
	met    atomic.Uint32 // when two last met here, the low bits of it; read without the lock too
	sweep  int64         // when a newcomer next looks for idle states
	wides  *wides        // slices beside the table; nil until there is one
	_      [3 * (8 - pointerSize)]byte
	table  *Table // the last: after a field of no size there would be a gap
}

const pointerSize = unsafe.Sizeof(uintptr(0))

// It compiles as long as a shard has that size.
var _ [shardSize]byte = [unsafe.Sizeof(Shard{})]byte{}

// How often who waits for a shard looks for it before being put to sleep, and
// how many pauses, of 10 to 40 ns each on processors of today, come before each
// look: few before the first, unless two have just met at the shard. In all
// they take 130 µs at most.
const (
	looks       = 8
	firstPauses = 4
	pauses      = 400
)

// justMet is how long ago, in microseconds, a meeting tells of a hot key: those
// of two who have one are some looks apart, those of chance are seldom so near.
const justMet = 32

// Lock waits for the shard, as who comes seldom does.
func (s *Shard) Lock() {
	if !s.TryLock() {
		s.wait(firstPauses)
	}
}

// LockAt waits for the shard, as who comes often does. It is [Shard.TryLock] and
// [Shard.Wait].
func (s *Shard) LockAt(now int64) {
	if !s.TryLock() {
		s.Wait(now)
	}
}

// Wait is for who has just found the shard locked, at now. Most who hold it are
// done in some tens of nanoseconds, so who met them by chance looks soon. Who
// holds a hot key comes back at once: then all looks are seldom, for each takes
// cache lines from the one at work, and two who take turns do half as much as
// one. And they are many, for to be put to sleep and woken costs as much as a
// hundred checks.
func (s *Shard) Wait(now int64) {
	first := uint32(firstPauses)
	if s.isHot(now) {
		first = pauses
	}
	s.wait(first)
	s.met.Store(uint32(now))
}

// isHot reports whether others have just met here. It reads without the lock.
func (s *Shard) isHot(now int64) bool { return uint32(now)-s.met.Load() < justMet }

// wait looks for the shard, for the first time after so many pauses.
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

// TryLock locks the shard if nobody has. It is small enough to be inlined,
// which those that wait are not.
func (s *Shard) TryLock() bool { return s.mu.TryLock() }

// Unlock lets others have the shard.
func (s *Shard) Unlock() { s.mu.Unlock() }

// at returns slot i, which is below size.
func (s *Shard) at(i int) *Slot { return (*Slot)(unsafe.Add(s.slots, i*slotSize)) }

// all returns the slots as a slice.
func (s *Shard) all() []Slot { return unsafe.Slice((*Slot)(s.slots), s.len()) }

func (s *Shard) len() int { return int(s.size.Load()) }

func (s *Shard) home(hash uint64) int { return home(hash, s.len()) }

// Find returns the slot of an identity, nil when there is none. The slot
// stays where it is until the shard is next changed or searched.
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

// bringHome swaps a slot that was found far from its home with the idler of
// those there, so that what is asked for often is found in one line. Whoever
// moves away stays within reach: every slot on the way is used.
func (s *Shard) bringHome(slot *Slot, home int) *Slot {
	idler := s.at(home)
	if other := s.at(home + 1); other.State.Hi < idler.State.Hi { // times lead in most states
		idler = other
	}
	*slot, *idler = *idler, *slot
	return idler
}

// AtHome is Find for an identity whose slot is where probing begins, as most
// are, and whose state, a narrow one, was stored with a reference; nil for
// others. It is small enough to be inlined.
func (s *Shard) AtHome(id ID, ref uint32) *Slot {
	slot := s.at(s.home(id.Hash))
	if slot.is(id) && slot.ref == ref {
		return slot
	}
	return nil
}

// Insert stores the state of an identity that has no slot. It reports false,
// and counts it, when there is no room and nothing that may go.
func (s *Shard) Insert(id ID, ref uint32, state State, now int64) bool {
	s.tidy(now)
	if !s.take(id, 1, now) {
		return false
	}
	s.put(Slot{hash: id.Hash, tag: id.tag(), ref: ref, State: state})
	return true
}

// Delete drops a slot that [Shard.Find] returned.
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

// put places a slot that is not in the shard.
func (s *Shard) put(slot Slot) {
	i := s.home(slot.hash)
	for s.at(i).ref != 0 {
		i = s.next(i)
	}
	*s.at(i) = slot
	s.count++
}

// deleteAt empties a slot, gives its weight back, and closes the gap: the
// slots behind it that probing would no longer reach move up.
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

// comesPast reports whether probing from a home comes past the gap before i.
func comesPast(home, gap, i int) bool {
	if gap <= i {
		return home <= gap || home > i
	}
	return home <= gap && home > i
}
