//go:build !unix

package peek

// Supported reports whether this system has At.
const Supported = false

// At must not be called on this system.
func At(uintptr) State { panic("peek: not supported on this system") }
