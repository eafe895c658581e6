//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package table

// noReserve is not needed: these systems do not count what is not written.
const noReserve = 0

func choosePages([]byte, bool) {}

func populateMemory([]byte) {}

// releaseMemory keeps the pages: these systems do not promise that pages
// given back read as zero.
func releaseMemory(memory []byte) { clear(memory) }
