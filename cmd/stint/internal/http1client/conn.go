package http1client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/burst"
)

// conn is a connection to a server. One goroutine uses it at a time; close may be called
// beside it.
type conn struct {
	raw    net.Conn
	host   string // key in the pool
	reader *bufio.Reader
	heads  heads
	writes *burst.Writes
	output []byte // the request; kept unless it is large
	left   int64  // bytes that may still be read
	sent   int    // bytes of the request so far
	reused bool
	since  time.Time // idle since
	check  *liveness
	close  func() // closes the raw connection

	request *http.Request // in progress
	end     time.Time     // when the header of its response is late; zero: never
	next    time.Time     // read deadline of the raw connection while stop is nil
	stop    func() bool   // ends the watch of the request's context; nil: it is not watched
}

// patience is how long a response may take at least before its request's context is watched,
// and half of how long it may take at most.
//
// To watch a context and to set deadlines of its own for each request costs more than to
// parse the response. Most responses arrive within milliseconds, so that the watch is for
// nothing. So a read of the raw connection first ends after one to two times the patience,
// by a deadline that many requests share. Only then the context is watched, and the deadline
// becomes that of the request. The trade-off: a request that ends early keeps its connection
// for up to twice the patience.
const patience = 25 * time.Millisecond

func newConn(raw net.Conn, host string, writes *burst.Writes) *conn {
	c := &conn{raw: raw, host: host, writes: writes}
	c.check = newLiveness(raw, c.write)
	c.close = func() { _ = raw.Close() } // nothing can be done about its error
	c.reader = bufio.NewReader(c)
	return c
}

// begin prepares the connection for a request, the header of whose response may take the
// given time.
func (c *conn) begin(r *http.Request, within time.Duration) {
	now := time.Now()
	c.request, c.sent, c.end = r, 0, now.Add(within)
	if c.next.Sub(now) < patience || c.next.After(c.end) {
		c.next = now.Add(min(2*patience, within))
		_ = c.raw.SetReadDeadline(c.next) // fails on a closed connection, as the read does
	}
}

// writeIfAlive writes the request, unless the server has closed the idle connection or sent
// something, and reports whether it did. Bytes that belong to no request would be read as the
// next response, perhaps that of another client.
func (c *conn) writeIfAlive() bool { return c.reader.Buffered() == 0 && c.check.beginIfSilent() }

// watch closes the connection when the context of the request ends, and gives reads the
// deadline of the request.
func (c *conn) watch() {
	if c.stop != nil {
		return
	}
	c.stop = context.AfterFunc(c.request.Context(), c.close)
	c.next = time.Time{}
	_ = c.raw.SetReadDeadline(c.end) // fails on a closed connection, as the read does
}

// unwatch reports false if the context has ended and closes the connection.
func (c *conn) unwatch() bool {
	stop := c.stop
	c.stop, c.request = nil, nil
	return stop == nil || stop()
}

// unbound lets the rest of a body take any time.
func (c *conn) unbound() {
	if c.end.IsZero() {
		return
	}
	c.end = time.Time{}
	if c.stop != nil {
		_ = c.raw.SetReadDeadline(c.end) // fails on a closed connection, as the read does
	}
}

// errTooLong is not seen by callers: receive replaces it.
var errTooLong = errors.New("too many bytes")

// Read fills the buffer of the reader.
func (c *conn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errTooLong
	}
	n, err := c.raw.Read(p[:min(int64(len(p)), c.left)])
	if n == 0 && c.stop == nil && errors.Is(err, os.ErrDeadlineExceeded) {
		c.watch()
		n, err = c.raw.Read(p[:min(int64(len(p)), c.left)])
	}
	c.left -= int64(n)
	return n, err
}

// partSize is the size of the parts in which a request is written.
const partSize = 4 << 10

// writePart writes a part of the request. The server has read all earlier requests, so the
// first part fits into what the system buffers. Later parts may have to wait.
func (c *conn) writePart(p []byte) (int, error) {
	if c.sent > 0 {
		c.watch()
	}
	c.sent += len(p)
	c.writes.Await()
	return c.raw.Write(p)
}

// body is the body of a response. Its end gives the connection back to the pool.
//
// Close may be called beside Read, as with http.Transport: a client that retries bounds by it
// how long it reads. It then only closes the raw connection, and Read ends the use of the
// connection. If both ended it, one could close it while another request uses it already.
type body struct {
	inner   io.ReadCloser
	conn    *conn
	pool    *pool
	request *http.Request
	keep    bool // the server keeps the connection
	chunked bool
	begun   bool // Read was called

	mu      sync.Mutex // held while the fields below change
	reading bool       // Read waits for the server
	closed  bool       // Close was called while Read waited
	ended   bool
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	if !b.beginRead() {
		return 0, io.EOF
	}
	b.begun = true
	b.conn.unbound()
	n, err := b.inner.Read(p)
	b.endRead(err)
	if err != nil && !errors.Is(err, io.EOF) {
		if cause := b.request.Context().Err(); cause != nil {
			err = cause
		}
	}
	return n, err
}

func (b *body) beginRead() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = !b.ended
	return b.reading
}

// endRead ends the use of the connection at the end of the body or after Close.
func (b *body) endRead(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	if err != nil || b.closed {
		b.endLocked(errors.Is(err, io.EOF) && !b.closed)
	}
}

// Ready reports whether the next Read certainly returns without waiting. Of a chunked body
// it knows only before the first Read.
func (b *body) Ready() bool {
	if b.hasEnded() {
		return false
	}
	n := b.conn.reader.Buffered()
	switch {
	case n == 0:
		return false
	case !b.chunked:
		return true
	case b.begun:
		return false // what is buffered may be in the middle of a chunk
	}
	arrived, _ := b.conn.reader.Peek(n) // cannot fail: n bytes are buffered
	return wholeChunks(arrived)
}

// wholeChunks reports whether the text consists of whole chunks. If one were incomplete,
// the reader of the standard library would wait for the rest.
func wholeChunks(text []byte) bool {
	for len(text) > 0 {
		length, rest, found := bytes.Cut(text, []byte("\r\n"))
		n, err := strconv.ParseUint(string(length), 16, 31)
		switch {
		case !found || err != nil || uint64(len(rest)) < n+2:
			return false
		case n == 0:
			return string(rest[:2]) == "\r\n" // no trailers follow
		}
		text = rest[n+2:]
	}
	return true
}

// Close implements [io.Closer]. A body that was not read to its end closes the connection,
// because reading the rest could take any time.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reading {
		b.closed = true
		b.conn.close() // ends Read
		return nil
	}
	b.endLocked(false)
	return nil
}

func (b *body) hasEnded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended
}

// endLocked ends the use of the connection, which is kept if the whole response was read and
// nothing follows it.
func (b *body) endLocked(whole bool) {
	if b.ended {
		return
	}
	b.ended = true
	c := b.conn
	if c.unwatch() && whole && b.keep && c.reader.Buffered() == 0 {
		b.pool.put(c)
		return
	}
	c.close()
}
