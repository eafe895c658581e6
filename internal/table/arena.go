package table

import (
	"math"
	"sync/atomic"
	"unsafe"
)

// arena is the address space of all shards, a window each, outside the Go
// heap: the garbage collector neither scans it nor counts it, and a window
// grows in place. Pages become resident when they are first written. Where
// there is no such space the shards are slices of the Go heap.
type arena struct {
	memory []byte
	slots  int // of each window
}

// reserve maps windows of so many slots, if the system lets it.
func reserve(shards, slots int) arena {
	size := int64(shards) * int64(slots) * slotSize
	if size > math.MaxInt {
		return arena{}
	}
	return arena{memory: mapMemory(int(size)), slots: slots}
}

func (a arena) mapped() bool { return a.memory != nil }

func (a arena) free() { unmapMemory(a.memory) }

// window returns the slots of a shard at a new size, old being those it had.
// In its window it keeps what they hold; what it loses reads as empty when it
// comes back. Beyond its window it is fresh.
func (a arena) window(shard int, old []Slot, slots int) []Slot {
	if !a.mapped() || slots > a.slots {
		return make([]Slot, slots)
	}
	if slots < len(old) && len(old) <= a.slots {
		a.giveBack(shard, slots, len(old))
	}
	return unsafe.Slice((*Slot)(a.at(shard, 0)), slots)
}

func (a arena) at(shard, slot int) unsafe.Pointer {
	return unsafe.Pointer(&a.memory[(shard*a.slots+slot)*slotSize])
}

// giveBack returns the pages of slots from and up to to; both are whole
// pages.
func (a arena) giveBack(shard, from, to int) {
	start := (shard*a.slots + from) * slotSize
	giveBackMemory(a.memory[start : start+(to-from)*slotSize])
}

// touch reads a slot for the sake of the cache; what it reads is not used.
func (a arena) touch(shard, slot int) {
	if slot < a.slots {
		atomic.LoadUint64(&(*Slot)(a.at(shard, slot)).hash)
	}
}
