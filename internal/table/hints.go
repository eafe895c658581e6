//go:build amd64 || arm64

package table

import "unsafe"

// touch begins to fetch two cache lines, the first to write it, and waits for
// neither. An address that is not mapped does no harm.
//
//go:noescape
func touch(shard, slot unsafe.Pointer)

// fetch begins to fetch two cache lines, and waits for neither. An address that
// is not mapped does no harm.
//
//go:noescape
func fetch(first, last unsafe.Pointer)

// pause does nothing so many times, some nanoseconds each, and leaves the
// processor's means to others meanwhile. times is at least 1.
func pause(times uint32)
