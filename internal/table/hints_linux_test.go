package table

import (
	"runtime/debug"
	"syscall"
	"testing"
	"unsafe"
)

// Keys may lie anywhere, and slots may be released meanwhile. A prefetch never
// reads memory, so it is safe for any address.
func TestFetchingReadsNothing(t *testing.T) {
	const page = 4096
	memory := mapMemory(page, false)
	if memory == nil {
		t.Skip("no memory is mapped")
	}
	defer unmapMemory(memory)
	if err := syscall.Mprotect(memory, syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	first := unsafe.Pointer(unsafe.SliceData(memory))
	forbidden := unsafe.String((*byte)(first), page)
	for _, key := range []string{"", forbidden, forbidden[:1], forbidden[page-1:], forbidden[63:65]} {
		Fetch(key)
	}
	touch(first, unsafe.Add(first, page-slotSize))
}
