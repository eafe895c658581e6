package table

import (
	"math"
	"unsafe"
)

// arena is the address space of all shards, outside the Go heap: the garbage
// collector neither scans it nor counts it. Where there is no such space the
// shards are slices of the Go heap.
//
// A shard has two windows, and grows in place in each. The early one is for
// as long as the shard may still be parted; those of all shards lie together
// in huge pages, because finding the page is much of a check in a table of a
// million keys. The late one is in small pages, which become resident as they
// are written: at that size it is the bytes a key that count.
type arena struct{ early, late windows }

// windows are those of one kind, one a shard.
type windows struct {
	memory []byte
	slots  int // of each
}

// smallSlots is the least size of a shard, two kilobytes.
const smallSlots = 64

// reserve maps the windows, if the system lets it.
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

// populate makes windows resident before they are needed: where the memory of
// a machine is itself virtual, the first touch of one huge page can take
// milliseconds.
func (w *windows) populate(from, to int) {
	if w.memory != nil {
		populateMemory(w.memory[from*w.slots*slotSize : to*w.slots*slotSize])
	}
}

// at returns a shard's window.
func (w *windows) at(shard int) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(w.memory)), shard*w.slots*slotSize)
}

// window returns the slots of a shard at a size. What they hold is undefined.
func (w *windows) window(shard, size int) unsafe.Pointer {
	if w.memory == nil || size > w.slots {
		return unsafe.Pointer(unsafe.SliceData(make([]Slot, size)))
	}
	return w.at(shard)
}

// release returns the pages of a window that a shard of the old size no
// longer needs.
func (w *windows) release(shard, size, oldSize int) {
	start, end := shard*w.slots, min(oldSize, w.slots)
	size = (size + slotsPerPage - 1) / slotsPerPage * slotsPerPage
	if w.memory != nil && size < end {
		releaseMemory(w.memory[(start+size)*slotSize : (start+end)*slotSize])
	}
}
