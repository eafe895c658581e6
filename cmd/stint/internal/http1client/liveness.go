package http1client

import (
	"net"
	"syscall"

	"github.com/stintdev/stint/cmd/stint/internal/peek"
)

// liveness checks a connection without waiting and without consuming what has arrived.
type liveness struct {
	raw   syscall.RawConn
	peek  func(socket uintptr) bool
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
	return liveness{raw, func(socket uintptr) bool {
		*silent = peek.At(socket) == peek.Silent
		return true
	}, silent}
}

// silent reports whether the peer has sent nothing and has not closed the connection. It
// is false for a connection that cannot be checked, which is then used once.
func (l *liveness) silent() bool {
	return l.raw != nil && l.raw.Read(l.peek) == nil && *l.found
}
