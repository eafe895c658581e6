package server

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

	"github.com/stintdev/stint/internal/gateway"
)

// An answer that may be of any length has no bound as a whole, and neither has
// a body that is passed on. What bounds them is that each part of them gets
// through in time: who takes nothing, or sends nothing, is cut off.

// readers is a listener whose connections end when a client does not read what
// is written to it.
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

// readerConn gives each write the timeout to get through, at least, and half as
// long again at most.
type readerConn struct {
	net.Conn

	timeout time.Duration
	until   atomic.Int64 // the deadline, in nanoseconds since the Unix epoch; 0: another's
	setting sync.Mutex   // what until says and the deadline itself change together
}

func (c *readerConn) Write(p []byte) (int, error) {
	if now := time.Now(); c.until.Load() < now.Add(c.timeout).UnixNano() { // seldom: it costs more than reading the time
		if err := c.extend(now); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Write(p)
	if err != nil {
		// Whoever reads from the connection must learn of it, too: grpc-go
		// relies on that.
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

// SetDeadline is SetReadDeadline and SetWriteDeadline.
func (c *readerConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetWriteDeadline puts another deadline in place of the connection's own until
// the next write. None at all, which would free a write that is under way, is
// the connection's own.
func (c *readerConn) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		return c.extend(time.Now())
	}
	c.setting.Lock()
	defer c.setting.Unlock()
	c.until.Store(0)
	return c.Conn.SetWriteDeadline(t)
}

// CloseWrite lets net/http end a connection in order.
func (c *readerConn) CloseWrite() error {
	if conn, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return conn.CloseWrite()
	}
	return errors.ErrUnsupported
}

// fromWriters cuts off requests of which nothing comes for the timeout although
// their body has not ended. The streams of gRPC are meant to be silent. The
// body is put into a copy of the request: net/http looks at its own to see
// whether the client waits for a 100 Continue, and who is denied shall not be
// waited for in turn.
func fromWriters(timeout time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stream := r.ProtoMajor > 1 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
		if r.ContentLength != 0 && !stream {
			body := &writerBody{r.Body, http.NewResponseController(w), timeout}
			if r.ProtoMajor == 1 {
				body.bound() // also of what nobody reads: net/http does, before it answers
			}
			r = r.WithContext(r.Context())
			r.Body = body
		}
		next.ServeHTTP(w, r)
	})
}

// writerBody is a body each part of which must come in time.
type writerBody struct {
	io.ReadCloser

	control *http.ResponseController
	timeout time.Duration
}

// bound gives the next part its time; a connection that cannot has no bound.
func (b *writerBody) bound() { _ = b.control.SetReadDeadline(time.Now().Add(b.timeout)) }

func (b *writerBody) Read(p []byte) (int, error) {
	b.bound()
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		_ = b.control.SetReadDeadline(time.Time{}) // the answer may take longer
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = gateway.ErrSlowClient
	}
	return n, err
}
