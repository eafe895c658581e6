//go:build !(amd64 || arm64)

package table

import "unsafe"

// These are instructions of their own, which Go does not reach without assembly:
// here none does anything.

// touch would begin to fetch two cache lines.
func touch(_, _ unsafe.Pointer) {}

// fetch would begin to fetch two cache lines.
func fetch(_, _ unsafe.Pointer) {}

// pause would let some time pass, so here the looks of who waits follow each
// other at once.
func pause(uint32) {}
