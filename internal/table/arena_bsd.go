//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package table

// noReserve is zero: these systems do not count memory that was never written.
const noReserve = 0

func choosePages([]byte, bool) {}

func populateMemory([]byte) {}

// releaseMemory clears the pages and keeps them: these systems do not promise
// that released pages read as zero.
func releaseMemory(memory []byte) { clear(memory) }
