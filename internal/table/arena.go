package table

import (
	"math"
	"unsafe"
)

// arena is the address space of all shards. It lies outside the Go heap, so the
// garbage collector neither scans it nor counts it. Where the system offers no
// such space, the shards are slices in the Go heap.
//
// A shard has two windows and grows in place in each. It uses the early window
// while it may still be split. The early windows of all shards lie together in
// huge pages, because address translation is a large part of a check in a table
// of a million keys. The late window is in small pages, which become resident
// as they are written: in a table of that size, the bytes per key matter more.
type arena struct{ early, late windows }

// windows are the windows of one kind, one for each shard.
type windows struct {
	memory []byte
	slots  int // size of each window in slots
}

// smallSlots is the least size of a shard in slots: two kilobytes.
const smallSlots = 64

// reserve maps the windows. It returns the zero arena if the system refuses.
func reserve(early, shards, slots int) arena {
	a := arena{late: mapWindows(shards, slots, false)}
	if early > 0 {
		a.early = mapWindows(early, earlySlots, true)
	}
	if a.late.memory == nil || early > 0 && a.early.memory == nil {
		a.free()
		return arena{}
	}
	return a
}

func mapWindows(shards, slots int, huge bool) windows {
	if slots > math.MaxInt/slotSize/shards {
		return windows{}
	}
	return windows{memory: mapMemory(shards*slots*slotSize, huge), slots: slots}
}

func (a arena) mapped() bool { return a.late.memory != nil }

func (a arena) free() {
	unmapMemory(a.early.memory)
	unmapMemory(a.late.memory)
}

// of returns the windows of one kind.
func (a *arena) of(late bool) *windows {
	if late {
		return &a.late
	}
	return &a.early
}

// populate makes a range of windows resident before they are needed. On a
// virtual machine, the first touch of a huge page can take milliseconds.
func (w *windows) populate(from, to int) {
	if w.memory != nil {
		populateMemory(w.memory[from*w.slots*slotSize : to*w.slots*slotSize])
	}
}

// at returns the address of a shard's window.
func (w *windows) at(shard int) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(w.memory)), shard*w.slots*slotSize)
}

// window returns the slots of a shard of the given size. Their content is
// undefined.
func (w *windows) window(shard, size int) unsafe.Pointer {
	if w.memory == nil || size > w.slots {
		return unsafe.Pointer(unsafe.SliceData(make([]Slot, size)))
	}
	return w.at(shard)
}

// release returns to the system the pages of a window that a shard needs no
// more when it changes from oldSize to size.
func (w *windows) release(shard, size, oldSize int) {
	start, end := shard*w.slots, min(oldSize, w.slots)
	size = (size + slotsPerPage - 1) / slotsPerPage * slotsPerPage
	if w.memory != nil && size < end {
		releaseMemory(w.memory[(start+size)*slotSize : (start+end)*slotSize])
	}
}
