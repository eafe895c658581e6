package http1client

import (
	"net"
	"syscall"

	"github.com/stintdev/stint/cmd/stint/internal/peek"
)

// liveness checks an idle connection without waiting and without consuming what has arrived,
// and then waits for the response.
//
// An ordinary read asks the system for bytes first, and waits only if there are none. Right
// after a request there never are, so that call is for nothing. A raw read waits for what
// arrives after its beginning: it looks at the socket, has the request written, and waits.
//
// Closing a connection waits for the reads that have begun. Another goroutine may close it
// meanwhile, which ends the write and the wait. But the writer itself must not: it would wait
// for its own end.
type liveness struct {
	raw    syscall.RawConn // nil: the connection cannot be checked
	step   func(socket uintptr) (done bool)
	begin  func() // writes the request; must not close the connection
	silent bool   // the request was written
}

func newLiveness(c net.Conn, begin func()) *liveness {
	l := &liveness{begin: begin}
	l.step = l.look
	if s, ok := c.(syscall.Conn); ok {
		l.raw, _ = s.SyscallConn() // nil if the connection is closed
	}
	return l
}

// look is called once, and again when something may have arrived.
func (l *liveness) look(socket uintptr) (done bool) {
	if l.silent || peek.At(socket) != peek.Silent {
		return true
	}
	l.silent = true
	l.begin()
	return false
}

// beginIfSilent calls begin if the peer has sent nothing and has not closed the connection,
// and reports whether it did. It then returns when a read returns without waiting, or with an
// error. A connection that cannot be checked is used once.
func (l *liveness) beginIfSilent() bool {
	if l.raw == nil {
		return false
	}
	l.silent = false
	_ = l.raw.Read(l.step) // the next read has the same error
	return l.silent
}
