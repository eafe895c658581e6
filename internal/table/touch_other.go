//go:build !amd64

package table

import (
	"sync/atomic"
	"unsafe"
)

// touch reads a word of a cache line; what it reads is not used.
func touch(address unsafe.Pointer) { atomic.LoadUint64((*uint64)(address)) }
