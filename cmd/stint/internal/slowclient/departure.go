package slowclient

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/peek"
)

// departure notices that the client of an HTTP/1.1 connection closes it while its request is
// served, and then ends the context of the request.
//
// The problem: net/http does so by a goroutine for each request, which reads one byte ahead,
// and which it stops when the response is complete. That costs a system call and several
// switches between goroutines, and most requests take a few milliseconds. The approach: the
// read of one byte returns nothing at once, which ends the goroutine. A timer of the
// connection looks whether a request lasts, and only then waits until the connection is
// readable, without reading. The trade-off is that a client that leaves is noticed up to
// twice lookAfter later. If net/http went on reading after an empty read, as [io.Reader]
// allows, its next read would be an ordinary one.
type departure struct {
	raw   syscall.RawConn
	open  context.Context    //nolint:containedctx // ends with the connection
	leave context.CancelFunc // ends open, and so the requests of the connection; nil: net/http watches

	served atomic.Uint64 // counts the beginnings and the ends of requests: odd while one is served
	armed  atomic.Bool   // the timer is set, or its function runs
	timer  *time.Timer
	seen   uint64 // served when the timer was set
}

// lookAfter is how long a request lasts at least before the connection is watched.
const lookAfter = 25 * time.Millisecond

// ConnContext returns the hook [http.Server.ConnContext] that watches connections of
// [Connections] for clients that leave. next, unless nil, is another such hook.
func ConnContext(next func(context.Context, net.Conn) context.Context) func(context.Context, net.Conn) context.Context {
	return func(ctx context.Context, c net.Conn) context.Context {
		if t := timedIn(c); t != nil && peek.Supported {
			ctx = t.watch(ctx)
		}
		if next != nil {
			ctx = next(ctx, c)
		}
		return ctx
	}
}

// timedIn returns the connection of [Connections] inside wrappers, or nil. Of a TLS
// connection, net/http reads other bytes ahead.
func timedIn(c net.Conn) *timedConn {
	for {
		switch wrapper := c.(type) {
		case *timedConn:
			return wrapper
		case *tls.Conn:
			return nil
		case interface{ NetConn() net.Conn }:
			c = wrapper.NetConn()
		default:
			return nil
		}
	}
}

// watch returns a context that ends with the connection. A connection that changes its
// server is watched twice: both contexts end.
func (c *timedConn) watch(ctx context.Context) context.Context {
	d := &c.departure
	if d.leave != nil {
		ctx, cancel := context.WithCancel(ctx)
		context.AfterFunc(d.open, cancel)
		return ctx
	}
	socket, ok := innermost(c).(syscall.Conn)
	if !ok {
		return ctx
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return ctx // the connection is closed
	}
	d.raw, d.timer = raw, time.AfterFunc(time.Hour, c.look)
	d.timer.Stop()
	d.open, d.leave = context.WithCancel(ctx)
	return d.open
}

func innermost(c net.Conn) net.Conn {
	for {
		wrapper, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return c
		}
		c = wrapper.NetConn()
	}
}

// reads notes a read of the connection. It returns false for the one by which net/http
// watches for the client to leave, while a request is served.
func (c *timedConn) reads(p []byte) bool {
	d := &c.departure
	switch {
	case d.leave == nil:
	case d.served.Load()&1 == 1:
		c.EndRequest()
	case len(p) == 1:
		c.BeginRequest()
		return false
	}
	return true
}

// BeginRequest notes that a request is served, for a server that does not read ahead.
func (c *timedConn) BeginRequest() {
	d := &c.departure
	if d.leave == nil {
		return
	}
	if n := d.served.Add(1); !d.armed.Swap(true) {
		c.lookAt(n)
	}
}

// EndRequest notes the end of the request, before the next read.
func (c *timedConn) EndRequest() {
	if c.departure.leave != nil {
		c.departure.served.Add(1)
	}
}

// lookAt sets the timer, which must not be armed by others.
func (c *timedConn) lookAt(n uint64) {
	d := &c.departure
	d.seen = n
	d.timer.Reset(lookAfter)
}

// look is called by the timer.
func (c *timedConn) look() {
	d := &c.departure
	n := d.served.Load()
	if n&1 == 1 && n != d.seen {
		c.lookAt(n) // another request than the one that set the timer
		return
	}
	if n&1 == 1 && c.awaitEnd() && d.served.Load() == n {
		d.leave()
	}
	d.armed.Store(false)
	if m := d.served.Load(); m&1 == 1 && m != n && !d.armed.Swap(true) {
		c.lookAt(m) // it began before armed was cleared
	}
}

// awaitEnd waits until the connection ends, or until something arrives, which may be the
// next request. In the second case it returns false, and also after a deadline, by which
// net/http stops reads. It keeps the next read waiting until then.
func (c *timedConn) awaitEnd() (ended bool) {
	for {
		state := peek.Silent
		err := c.departure.raw.Read(func(socket uintptr) bool {
			state = peek.At(socket)
			return state != peek.Silent
		})
		switch {
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err != nil || state == peek.Ended
		case !c.readsOn():
			return false
		}
	}
}

// Close implements [net.Conn].
func (c *timedConn) Close() error {
	err := c.Conn.Close()
	if leave := c.departure.leave; leave != nil {
		c.departure.timer.Stop()
		leave()
	}
	return err
}
