//go:build unix

// Package peek looks at a connection without consuming what has arrived. It is a package of
// its own because the client of the gateway and its listener both need it, and other systems
// than Unix do not have it.
package peek

import "syscall"

// Supported is false where connections cannot be looked at.
const Supported = true

// At returns the state of the socket, without waiting.
func At(socket uintptr) State {
	var b [1]byte
	n, _, err := syscall.Recvfrom(int(socket), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	switch {
	case err == syscall.EAGAIN || err == syscall.EWOULDBLOCK || err == syscall.EINTR:
		return Silent
	case err == nil && n > 0:
		return Readable
	}
	return Ended
}
