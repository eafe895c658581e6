package table

import "unsafe"

// touch begins to fetch a cache line and does not wait for it.
//
//go:noescape
func touch(address unsafe.Pointer)
