package http1server

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/stintdev/stint/cmd/stint/internal/http1line"
)

const (
	// maxHead is the size of the largest plain head. Larger ones go to the http.Server.
	maxHead = 4 << 10

	// maxParts is the greatest number of reads in which a plain head arrives. It bounds how
	// often a head is parsed.
	maxParts = 4
)

// conn is a connection that has had only plain requests. One goroutine serves it.
type conn struct {
	server   *Server
	raw      net.Conn
	watched  Watched         // nil: raw does not watch
	ctx      context.Context //nolint:containedctx // that of the connection, from which those of requests derive
	cancel   context.CancelFunc
	template *http.Request   // what all requests of the connection have in common
	request  http.Request    // that is served; empty between two requests
	ended    <-chan struct{} // closed when the http.Server takes no more connections
	began    time.Time

	state  atomic.Int32  // an http.ConnState
	input  [maxHead]byte // the first unread bytes belong to no request yet
	unread int
	late   time.Time   // when the next head is late; zero: it has not begun, or may take any time
	head   head        // of the request
	header http.Header // of the response
	names  []string    // sorted, of the header of the response before; nil: not kept
}

func (s *Server) newConn(base context.Context, raw net.Conn, ended <-chan struct{}) *conn {
	c := &conn{server: s, raw: raw, ended: ended, began: time.Now(), header: http.Header{}}
	c.watched, _ = raw.(Watched)
	c.setState(http.StateNew)
	if s.http.ConnContext != nil {
		base = s.http.ConnContext(base, raw)
	}
	c.ctx, c.cancel = context.WithCancel(context.WithValue(base, http.LocalAddrContextKey, raw.LocalAddr()))
	c.template = (&http.Request{
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody, RemoteAddr: raw.RemoteAddr().String(),
	}).WithContext(c.ctx)
	s.add(c)
	return c
}

func (c *conn) setState(state http.ConnState) {
	c.state.Store(int32(state))
	if hook := c.server.http.ConnState; hook != nil {
		hook(c.raw, state)
	}
}

// serve serves requests until one is not plain, the client leaves or a response ends the
// connection.
func (c *conn) serve() {
	defer c.server.remove(c)
	defer c.cancel()
	c.late = c.setDeadline(c.server.http.ReadHeaderTimeout)
	for {
		found := c.read()
		switch {
		case found == http1line.Other:
			c.handOver()
			return
		case found == http1line.Incomplete || c.server.draining.Load() || !c.respond():
			c.close()
			return
		}
		c.setState(http.StateIdle)
		if c.server.draining.Load() {
			c.close()
			return
		}
		c.setDeadline(c.server.http.IdleTimeout)
	}
}

// setDeadline bounds the next reads and returns when they end. 0 sets no bound.
func (c *conn) setDeadline(after time.Duration) (end time.Time) {
	if after > 0 {
		end = time.Now().Add(after)
	}
	_ = c.raw.SetReadDeadline(end) // fails on a closed connection, as the read does
	return end
}

// read reads the next head. It returns Incomplete if the connection ends before, and
// Other if the http.Server is to read what has arrived.
func (c *conn) read() http1line.Verdict {
	for part := 0; ; part++ {
		if c.unread > 0 {
			found := c.head.parse(unsafe.String(&c.input[0], c.unread)) // parse keeps copies only
			switch {
			case found != http1line.Incomplete:
				return found
			case part == maxParts || c.unread == maxHead:
				return http1line.Other
			}
			if c.late.IsZero() {
				c.late = c.setDeadline(c.server.http.ReadHeaderTimeout)
			}
		}
		n, err := c.raw.Read(c.input[c.unread:])
		c.unread += n
		if n == 0 && err != nil {
			return http1line.Incomplete
		}
	}
}

// respond serves a request. It reports whether the connection may have another one.
func (c *conn) respond() (again bool) {
	w := newResponse(c)
	r := w.request
	c.unread = copy(c.input[:], c.input[c.head.size:c.unread])
	c.late = time.Time{}
	c.setDeadline(0)
	c.setState(http.StateActive)
	if c.watched != nil {
		c.watched.BeginRequest()
		defer c.watched.EndRequest()
	}
	defer func() {
		w.release()
		if problem := recover(); problem != nil {
			again = false
			c.logPanic(problem)
		}
	}()
	c.server.http.Handler.ServeHTTP(w, r)
	return w.finish()
}

// logPanic logs the panic of a handler as net/http does.
func (c *conn) logPanic(problem any) {
	if err, ok := problem.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
		c.logf("http: panic serving %v: %v\n%s", c.template.RemoteAddr, problem, debug.Stack())
	}
}

func (c *conn) logf(format string, values ...any) {
	if to := c.server.http.ErrorLog; to != nil {
		to.Printf(format, values...)
		return
	}
	log.Printf(format, values...)
}

func (c *conn) close() {
	_ = c.raw.Close() // nothing can be done about its error
	c.setState(http.StateClosed)
}

// handOver gives the connection to the http.Server.
func (c *conn) handOver() {
	begun := &begunConn{Conn: c.raw, begun: c.input[:c.unread]}
	if late := c.late; !late.IsZero() {
		begun.late.Store(&late)
	}
	select {
	case c.server.handed <- begun:
	case <-c.ended:
		c.close()
	}
}

// begunConn is a connection some of whose bytes have been read. The http.Server uses it as
// it uses any other.
type begunConn struct {
	net.Conn

	begun []byte                    // what has been read
	late  atomic.Pointer[time.Time] // the deadline of the head that has begun; nil: none, or past the head
}

// NetConn returns the connection without what has been read.
func (c *begunConn) NetConn() net.Conn { return c.Conn }

// Read implements [net.Conn].
func (c *begunConn) Read(p []byte) (int, error) {
	if len(c.begun) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.begun)
	if c.begun = c.begun[n:]; len(c.begun) == 0 {
		c.begun = nil // releases the memory of the plain connection
	}
	return n, nil
}

// SetReadDeadline implements [net.Conn]. The first deadline is that of the head, which has
// begun before. Later deadlines may be set at the same time.
func (c *begunConn) SetReadDeadline(t time.Time) error {
	if c.late.Load() != nil {
		if late := c.late.Swap(nil); late != nil && (t.IsZero() || late.Before(t)) {
			t = *late
		}
	}
	return c.Conn.SetReadDeadline(t)
}

// CloseWrite passes on the method by which net/http shuts a connection down in order.
func (c *begunConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
