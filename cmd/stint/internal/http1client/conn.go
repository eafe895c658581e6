package http1client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// conn is a connection to a server. One goroutine uses it at a time; close may be called
// beside it.
type conn struct {
	raw    net.Conn
	host   string // key in the pool
	reader *bufio.Reader
	writer *bufio.Writer
	left   int64 // bytes that may still be read
	timed  bool  // the raw connection has a read deadline
	reused bool
	since  time.Time // idle since
	check  liveness
	close  func() // closes the raw connection
}

func newConn(raw net.Conn, host string) *conn {
	c := &conn{raw: raw, host: host, check: newLiveness(raw)}
	c.close = func() { _ = raw.Close() } // nothing can be done about its error
	c.reader, c.writer = bufio.NewReader(c), bufio.NewWriter(raw)
	return c
}

// alive reports whether the server has neither closed the idle connection nor sent
// anything. Bytes that belong to no request would be read as the next response, perhaps
// that of another client.
func (c *conn) alive() bool { return c.reader.Buffered() == 0 && c.check.silent() }

// timeout bounds reading until the buffer has to be filled for the body.
func (c *conn) timeout(d time.Duration) {
	_ = c.raw.SetReadDeadline(time.Now().Add(d)) // fails on a closed connection, as the read does
	c.timed = true
}

// errTooLong is not seen by callers: receive replaces it.
var errTooLong = errors.New("too many bytes")

// Read fills the buffer of the reader.
func (c *conn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errTooLong
	}
	n, err := c.raw.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// unbound lets the rest of a body take any time.
func (c *conn) unbound() {
	if c.timed {
		_ = c.raw.SetReadDeadline(time.Time{}) // fails on a closed connection, as the read does
		c.timed = false
	}
}

// body is the body of a response. Its end gives the connection back to the pool.
type body struct {
	inner   io.ReadCloser
	conn    *conn
	pool    *pool
	request *http.Request
	stop    func() bool // ends the watch of the request's context
	keep    bool        // the server keeps the connection
	chunked bool
	begun   bool // Read was called
	ended   bool
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	if b.ended {
		return 0, io.EOF
	}
	b.begun = true
	b.conn.unbound()
	n, err := b.inner.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.end(true)
	case err != nil:
		b.end(false)
		if cause := b.request.Context().Err(); cause != nil {
			err = cause
		}
	}
	return n, err
}

// Ready reports whether the next Read certainly returns without waiting. Of a chunked body
// it knows only before the first Read.
func (b *body) Ready() bool {
	n := b.conn.reader.Buffered()
	switch {
	case b.ended || n == 0:
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
	b.end(false)
	return nil
}

// end ends the use of the connection, which is kept if the whole response was read and
// nothing follows it.
func (b *body) end(whole bool) {
	if b.ended {
		return
	}
	b.ended = true
	c := b.conn
	if b.stop() && whole && b.keep && c.reader.Buffered() == 0 {
		b.pool.put(c)
		return
	}
	c.close()
}
