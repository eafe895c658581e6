package table

import (
	"math"
	"unsafe"
)

// arena is the address space of all shards, outside the Go heap: the garbage
// collector neither scans it nor counts it. Where there is no such space the
// shards are slices of the Go heap.
//
// Each shard has three windows. It begins in a small one; those of all shards
// lie together, in huge pages, so that a table of few keys takes few entries
// of the processor's page cache. Then it grows in place in a large one, in
// small pages, which become resident as they are written. In between, at the
// size that tables of a million keys have, it is in a middle one, in huge
// pages again: a quarter of the time of a check is else the page walk.
type arena struct{ small, middle, large windows }

// windows are those of one size, one a shard.
type windows struct {
	memory []byte
	slots  int // of each
}

const (
	smallSlots  = 64  // two kilobytes
	middleSlots = 512 // sixteen
)

// reserve maps the windows, if the system lets it.
func reserve(shards, slots int) arena {
	a := arena{
		small:  mapWindows(shards, smallSlots, true),
		middle: mapWindows(shards, middleSlots, true),
		large:  mapWindows(shards, slots, false),
	}
	if a.small.memory == nil || a.middle.memory == nil || a.large.memory == nil {
		a.free()
		return arena{}
	}
	populateMemory(a.small.memory)
	return a
}

func mapWindows(shards, slots int, huge bool) windows {
	size := int64(shards) * int64(slots) * slotSize
	if size > math.MaxInt {
		return windows{}
	}
	return windows{memory: mapMemory(int(size), huge), slots: slots}
}

func (a arena) mapped() bool { return a.small.memory != nil }

func (a arena) free() {
	unmapMemory(a.small.memory)
	unmapMemory(a.middle.memory)
	unmapMemory(a.large.memory)
}

// window returns the slots of a shard at a new size. What they hold is
// undefined. What a shard no longer needs is given back.
func (a *arena) window(shard, oldSize, size int) unsafe.Pointer {
	if !a.mapped() {
		return heapWindow(size)
	}
	if oldSize > smallSlots {
		a.giveBack(shard, oldSize, size)
	}
	w := a.of(size)
	if size > w.slots {
		return heapWindow(size)
	}
	return w.at(shard)
}

func heapWindow(size int) unsafe.Pointer {
	return unsafe.Pointer(unsafe.SliceData(make([]Slot, size)))
}

// at returns where a shard of that size has its slots.
func (a *arena) at(shard, size int) unsafe.Pointer { return a.of(size).at(shard) }

// of returns the windows for shards of a size.
func (a *arena) of(size int) *windows {
	switch size {
	case smallSlots:
		return &a.small
	case middleSlots:
		return &a.middle
	default:
		return &a.large
	}
}

func (w *windows) at(shard int) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(w.memory)), shard*w.slots*slotSize)
}

// giveBack returns the pages of the window that a shard leaves, or those
// behind its new size where it stays.
func (a *arena) giveBack(shard, oldSize, size int) {
	w := a.of(oldSize)
	if a.of(size) != w {
		size = 0
	}
	start, end := shard*w.slots, min(oldSize, w.slots)
	if size < end {
		giveBackMemory(w.memory[(start+size)*slotSize : (start+end)*slotSize])
	}
}
