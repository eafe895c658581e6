package slowclient

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// listener wraps the connections that it accepts.
type listener struct {
	net.Listener

	wrap func(conn) net.Conn
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.wrap(conn{c}), nil
}

// conn passes on CloseWrite, by which net/http shuts down a connection in order.
type conn struct{ net.Conn }

// NetConn returns the wrapped connection.
func (c conn) NetConn() net.Conn { return c.Conn }

func (c conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Connections closes a connection of l whose client does not read what is written to it.
// Each write has at least the timeout to complete, and at most half as long again.
func Connections(timeout time.Duration, l net.Listener) net.Listener {
	return &listener{l, func(c conn) net.Conn { return &timedConn{conn: c, timeout: timeout} }}
}

// timedConn gives each write a deadline of its own.
type timedConn struct {
	conn

	timeout time.Duration
	until   atomic.Int64 // the deadline of writes, in nanoseconds since the Unix epoch; 0 if the caller has set its own
	setting sync.Mutex   // makes a deadline and the field that describes it change together

	// Deadlines of reads, zero if there is none; guarded by setting. The one that is in
	// force is never later than the one that the caller wants.
	wanted, inForce time.Time

	departure departure
}

// Write implements [net.Conn].
func (c *timedConn) Write(p []byte) (int, error) {
	if now := time.Now(); c.until.Load() < now.Add(c.timeout).UnixNano() { // extends rarely: setting a deadline costs more than reading the time
		if err := c.extend(now); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Write(p)
	if err != nil {
		// Close makes the reader of the connection fail too; grpc-go relies on that.
		_ = c.Close()
	}
	return n, err
}

func (c *timedConn) extend(now time.Time) error {
	c.setting.Lock()
	defer c.setting.Unlock()
	until := now.Add(c.timeout + c.timeout/2)
	c.until.Store(until.UnixNano())
	return c.Conn.SetWriteDeadline(until)
}

// Read implements [net.Conn].
func (c *timedConn) Read(p []byte) (int, error) {
	if !c.reads(p) {
		return 0, nil
	}
	for {
		n, err := c.Conn.Read(p)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || !c.readsOn() {
			return n, err
		}
	}
}

// readsOn reports whether reading may go on after a deadline, because the caller wants a
// later one, which it puts in force.
func (c *timedConn) readsOn() bool {
	c.setting.Lock()
	defer c.setting.Unlock()
	if c.wanted.Equal(c.inForce) || !c.wanted.IsZero() && !time.Now().Before(c.wanted) {
		return false
	}
	c.inForce = c.wanted
	return c.Conn.SetReadDeadline(c.inForce) == nil
}

// SetReadDeadline implements [net.Conn]. net/http sets up to six deadlines for each request.
// To set them all costs more than to let a read go on that an earlier deadline has ended: so
// the deadline in force changes only if the new one is earlier.
func (c *timedConn) SetReadDeadline(t time.Time) error {
	c.setting.Lock()
	defer c.setting.Unlock()
	c.wanted = t
	if !c.inForce.IsZero() && (t.IsZero() || !t.Before(c.inForce)) {
		return nil
	}
	c.inForce = t
	return c.Conn.SetReadDeadline(t)
}

// SetDeadline calls SetReadDeadline and SetWriteDeadline.
func (c *timedConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetWriteDeadline replaces the connection's own deadline until the next write. A zero
// time restores the connection's own deadline: no deadline at all would let a write that
// is under way block forever.
func (c *timedConn) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		if c.until.Load() != 0 {
			return nil // it is in force; net/http calls this after each request
		}
		return c.extend(time.Now())
	}
	c.setting.Lock()
	defer c.setting.Unlock()
	c.until.Store(0)
	return c.Conn.SetWriteDeadline(t)
}

// Bodies cuts off a request whose body makes no progress for the timeout: a read of the
// body then returns late. gRPC streams may be silent, so they are exempt. The body is
// replaced in a copy of the request: net/http checks its own request to see whether the
// client waits for 100 Continue, and a denied request must not make the server wait for
// the body.
func Bodies(timeout time.Duration, late error, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stream := r.ProtoMajor > 1 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
		if r.ContentLength != 0 && !stream {
			body := &timedBody{r.Body, http.NewResponseController(w), timeout, late}
			if r.ProtoMajor == 1 {
				body.bound() // bound unread bodies too: net/http reads them before it answers
			}
			r = r.WithContext(r.Context())
			r.Body = body
		}
		next.ServeHTTP(w, r)
	})
}

// timedBody is a request body each part of which must arrive in time.
type timedBody struct {
	io.ReadCloser

	control *http.ResponseController
	timeout time.Duration
	late    error
}

// bound sets the deadline of the next part. A connection without deadlines has no bound.
func (b *timedBody) bound() { _ = b.control.SetReadDeadline(time.Now().Add(b.timeout)) }

// Read implements [io.Reader].
func (b *timedBody) Read(p []byte) (int, error) {
	b.bound()
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		_ = b.control.SetReadDeadline(time.Time{}) // the body has ended; the answer may take longer
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = b.late
	}
	return n, err
}

// Answers cuts off a client that accepts no part of an answer for the timeout. Over
// HTTP/2 the window of a single answer may be closed on a healthy connection, which
// [Connections] does not detect; an answer over HTTP/1 needs no bound but that of its
// connection.
func Answers(timeout time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 {
			next.ServeHTTP(w, r)
			return
		}
		a := &timedAnswer{ResponseWriter: w, control: http.NewResponseController(w), timeout: timeout}
		next.ServeHTTP(a, r)
		if a.unflushed { // net/http would write the rest without a deadline
			_ = a.FlushError()
		}
	})
}

// timedAnswer is an answer each part of which the client must accept in time. There is
// no bound between parts.
type timedAnswer struct {
	http.ResponseWriter

	control   *http.ResponseController
	timeout   time.Duration
	unflushed bool
}

// answerPart is the size of one HTTP/2 frame, small enough for a slow client to accept in
// time.
const answerPart = 16 << 10

// Unwrap lets [http.ResponseController] find the underlying writer.
func (a *timedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Write implements [http.ResponseWriter].
func (a *timedAnswer) Write(p []byte) (n int, err error) {
	a.unflushed = true
	defer a.end()
	for {
		a.begin()
		part := p[n:min(n+answerPart, len(p))]
		wrote, err := a.ResponseWriter.Write(part)
		if n += wrote; err != nil || n == len(p) {
			return n, err
		}
	}
}

// FlushError is called by [http.ResponseController].
func (a *timedAnswer) FlushError() error {
	a.unflushed = false
	a.begin()
	defer a.end()
	return a.control.Flush()
}

func (a *timedAnswer) begin() { _ = a.control.SetWriteDeadline(time.Now().Add(a.timeout)) }
func (a *timedAnswer) end()   { _ = a.control.SetWriteDeadline(time.Time{}) }
