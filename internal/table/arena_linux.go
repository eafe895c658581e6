package table

import "syscall"

// noReserve keeps a large window from counting as memory in use.
const noReserve = syscall.MAP_NORESERVE

// smallPages asks for 4 KiB pages: the windows are filled from their
// beginnings, and huge pages would make their empty ends resident. A kernel
// without huge pages refuses, which is as good.
func smallPages(memory []byte) { _ = syscall.Madvise(memory, syscall.MADV_NOHUGEPAGE) }

// giveBackMemory frees the pages; they read as zero afterwards.
func giveBackMemory(memory []byte) {
	if syscall.Madvise(memory, syscall.MADV_DONTNEED) != nil {
		clear(memory)
	}
}
