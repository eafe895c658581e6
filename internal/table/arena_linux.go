package table

import "syscall"

// noReserve keeps a large window from counting as memory in use.
const noReserve = syscall.MAP_NORESERVE

// choosePages asks for huge pages, or for small ones: large windows are
// filled from their beginnings, and huge pages would make their empty ends
// resident. A kernel without huge pages refuses, which is as good.
func choosePages(memory []byte, huge bool) {
	advice := syscall.MADV_NOHUGEPAGE
	if huge {
		advice = syscall.MADV_HUGEPAGE
	}
	_ = syscall.Madvise(memory, advice)
}

// releaseMemory frees the pages; they read as zero afterwards.
func releaseMemory(memory []byte) {
	if syscall.Madvise(memory, syscall.MADV_DONTNEED) != nil {
		clear(memory)
	}
}

// populateWrite is MADV_POPULATE_WRITE, of Linux 5.14.
const populateWrite = 23

// populateMemory makes memory resident. What an older kernel refuses happens
// when the memory is first written.
func populateMemory(memory []byte) { _ = syscall.Madvise(memory, populateWrite) }
