//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package table

import "syscall"

// mapMemory reserves zeroed memory, in huge or in small pages, that costs
// nothing until it is written. It returns nil when the system refuses.
func mapMemory(size int, huge bool) []byte {
	memory, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE|noReserve)
	if err != nil {
		return nil
	}
	choosePages(memory, huge)
	return memory
}

func unmapMemory(memory []byte) {
	if memory != nil {
		_ = syscall.Munmap(memory) // fails only for memory that is not mapped
	}
}
