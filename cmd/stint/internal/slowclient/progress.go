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

	"github.com/stintdev/stint/cmd/stint/internal/gateway"
)

// A response or a forwarded body of any length cannot have a bound as a whole. Instead,
// each part of it must make progress within a timeout; a client that neither reads nor
// sends within it is cut off.

// readers is a listener that closes a connection whose client does not read what is
// written to it.
type readers struct {
	net.Listener

	timeout time.Duration
}

func (l *readers) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &readerConn{Conn: conn, timeout: l.timeout}, nil
}

// readerConn gives each write at least the timeout to complete, and at most half as long
// again.
type readerConn struct {
	net.Conn

	timeout time.Duration
	until   atomic.Int64 // the deadline, in nanoseconds since the Unix epoch; 0 if the caller has set its own
	setting sync.Mutex   // makes the deadline and until change together
}

func (c *readerConn) Write(p []byte) (int, error) {
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

func (c *readerConn) extend(now time.Time) error {
	c.setting.Lock()
	defer c.setting.Unlock()
	until := now.Add(c.timeout + c.timeout/2)
	c.until.Store(until.UnixNano())
	return c.Conn.SetWriteDeadline(until)
}

// SetDeadline calls SetReadDeadline and SetWriteDeadline.
func (c *readerConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetWriteDeadline replaces the connection's own deadline until the next write. A zero
// time restores the connection's own deadline: no deadline at all would let a write that
// is under way block forever.
func (c *readerConn) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		return c.extend(time.Now())
	}
	c.setting.Lock()
	defer c.setting.Unlock()
	c.until.Store(0)
	return c.Conn.SetWriteDeadline(t)
}

// CloseWrite lets net/http shut down a connection in order.
func (c *readerConn) CloseWrite() error {
	if conn, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return conn.CloseWrite()
	}
	return errors.ErrUnsupported
}

// fromWriters cuts off a request whose body sends nothing for the timeout. gRPC streams
// may be silent, so they are exempt. The body is replaced in a copy of the request:
// net/http checks its own request to see whether the client waits for 100 Continue, and a
// denied request must not make the server wait for the body.
func fromWriters(timeout time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stream := r.ProtoMajor > 1 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
		if r.ContentLength != 0 && !stream {
			body := &writerBody{r.Body, http.NewResponseController(w), timeout}
			if r.ProtoMajor == 1 {
				body.bound() // bound unread bodies too: net/http reads them before it answers
			}
			r = r.WithContext(r.Context())
			r.Body = body
		}
		next.ServeHTTP(w, r)
	})
}

// writerBody is a request body each part of which must arrive in time.
type writerBody struct {
	io.ReadCloser

	control *http.ResponseController
	timeout time.Duration
}

// bound sets the deadline of the next part. A connection without deadlines has no bound.
func (b *writerBody) bound() { _ = b.control.SetReadDeadline(time.Now().Add(b.timeout)) }

func (b *writerBody) Read(p []byte) (int, error) {
	b.bound()
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		_ = b.control.SetReadDeadline(time.Time{}) // the body has ended; the answer may take longer
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = gateway.ErrSlowClient
	}
	return n, err
}
