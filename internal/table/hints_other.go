//go:build !(amd64 || arm64)

package table

import "unsafe"

// Both are instructions of their own, which Go does not reach without assembly:
// here neither does anything.

// touch would begin to fetch two cache lines.
func touch(_, _ unsafe.Pointer) {}

// pause would let some time pass, so here the looks of [Shard.Wait] follow each
// other at once.
func pause(uint32) {}
