package table

import "syscall"

// noReserve keeps the kernel from counting a large window as memory in use.
const noReserve = syscall.MAP_NORESERVE

// choosePages requests huge or small pages. Large windows fill up from their
// beginnings, and huge pages would make their empty ends resident. A kernel
// without huge pages refuses the request, which does no harm.
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

// populateWrite is MADV_POPULATE_WRITE, which Linux has since 5.14.
const populateWrite = 23

// populateMemory makes memory resident. On an older kernel it has no effect, and
// memory becomes resident when it is first written.
func populateMemory(memory []byte) { _ = syscall.Madvise(memory, populateWrite) }
