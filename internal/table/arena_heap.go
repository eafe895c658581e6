//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package table

// Without mmap the shards live in the Go heap.

func mapMemory(int, bool) []byte { return nil }

func unmapMemory([]byte) {}

func releaseMemory(memory []byte) { clear(memory) }

func populateMemory([]byte) {}
