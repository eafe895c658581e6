package table

import (
	"math"
	"unsafe"
)

// arena is the address space of all shards, outside the Go heap: the garbage
// collector neither scans it nor counts it. Pages become resident when they
// are first written. Where there is no such space the shards are slices of
// the Go heap.
//
// Each shard has two windows. It begins in a small one; those of all shards
// lie together, in huge pages, so that a table of few keys takes little
// memory and few entries of the processor's page cache. Then it moves to a
// large one, in small pages, where it grows in place.
type arena struct {
	small, large []byte
	slots        int // of a large window
}

// smallSlots is the size of a small window, two kilobytes.
const smallSlots = 64

// reserve maps the windows, if the system lets it.
func reserve(shards, slots int) arena {
	size := int64(shards) * int64(slots) * slotSize
	if size > math.MaxInt {
		return arena{}
	}
	small := mapMemory(shards*smallSlots*slotSize, true)
	large := mapMemory(int(size), false)
	if small == nil || large == nil {
		unmapMemory(small)
		unmapMemory(large)
		return arena{}
	}
	return arena{small: small, large: large, slots: slots}
}

func (a arena) mapped() bool { return a.small != nil }

func (a arena) free() {
	unmapMemory(a.small)
	unmapMemory(a.large)
}

// window returns the slots of a shard at a new size. What they hold is
// undefined. What a shard no longer needs of its large window is given back.
func (a arena) window(shard, oldSize, size int) unsafe.Pointer {
	if oldSize > smallSlots && size < oldSize && oldSize <= a.slots {
		a.giveBack(shard, size, oldSize)
	}
	if !a.mapped() || size > a.slots {
		return unsafe.Pointer(unsafe.SliceData(make([]Slot, size)))
	}
	return a.at(shard, size)
}

// at returns where a shard of that size has its slots.
func (a arena) at(shard, size int) unsafe.Pointer {
	if size <= smallSlots {
		return unsafe.Pointer(&a.small[shard*smallSlots*slotSize])
	}
	return unsafe.Pointer(&a.large[shard*a.slots*slotSize])
}

// giveBack returns the pages of a large window behind size; all of them when
// the shard moves to its small one.
func (a arena) giveBack(shard, size, oldSize int) {
	if size <= smallSlots {
		size = 0
	}
	start := shard * a.slots
	giveBackMemory(a.large[(start+size)*slotSize : (start+oldSize)*slotSize])
}
