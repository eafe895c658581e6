//go:build amd64 || arm64

package table

import "unsafe"

// touch prefetches two cache lines, the first of them for writing, and does not
// wait for them. An address that is not mapped does no harm.
//
//go:noescape
func touch(shard, slot unsafe.Pointer)

// fetch prefetches two cache lines and does not wait for them. An address that
// is not mapped does no harm.
//
//go:noescape
func fetch(first, last unsafe.Pointer)

// pause executes the processor's pause instruction the given number of times,
// some nanoseconds each. The instruction leaves resources of the core to other
// threads. times is at least 1.
func pause(times uint32)
