//go:build !(amd64 || arm64)

package table

import "unsafe"

// These hints need special instructions, which Go reaches only by assembly. On
// these processors they do nothing.

// touch would prefetch two cache lines.
func touch(_, _ unsafe.Pointer) {}

// fetch would prefetch two cache lines.
func fetch(_, _ unsafe.Pointer) {}

// pause would let some time pass. Without it, a goroutine that waits for a lock
// retries without pauses.
func pause(uint32) {}
