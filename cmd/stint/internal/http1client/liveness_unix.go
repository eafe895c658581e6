//go:build unix

package http1client

import (
	"net"
	"syscall"
)

// haveLiveness is false where an idle connection cannot be checked without waiting.
const haveLiveness = true

// liveness checks a connection without waiting and without consuming what has arrived.
type liveness struct {
	raw   syscall.RawConn
	peek  func(fd uintptr) bool
	found *bool
}

func newLiveness(c net.Conn) liveness {
	s, ok := c.(syscall.Conn)
	if !ok {
		return liveness{}
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return liveness{}
	}
	silent := new(bool)
	return liveness{raw, func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		*silent = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true
	}, silent}
}

// silent reports whether the peer has sent nothing and has not closed the connection. It
// is false for a connection that cannot be checked, which is then used once.
func (l *liveness) silent() bool {
	return l.raw != nil && l.raw.Read(l.peek) == nil && *l.found
}
