//go:build !unix

package peek

// Supported is false where connections cannot be looked at.
const Supported = false

// At must not be called on this system.
func At(uintptr) State { panic("peek: not supported on this system") }
