//go:build unix

package peek

import "syscall"

// Supported reports whether this system has At.
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
