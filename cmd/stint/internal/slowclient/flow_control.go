package slowclient

import (
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/credentials"
)

// Windows bounds how long a gRPC client may keep its flow-control windows closed. It wraps
// connections inside their encryption, where the frames can be read.
//
// An HTTP/2 client limits by these windows how much the server may write to it. A client
// that keeps them closed but answers pings would make grpc-go hold the answers to all of
// its calls for the life of the connection, because a call ends only when its answer has
// been written. So the connection tracks its windows in the frames that pass, and ends if
// a window has been closed for Timeout and the client has accepted fewer than enough
// bytes meanwhile. It tracks at most four times MaxStreams streams; the transport itself
// refuses more than MaxStreams at once.
type Windows struct {
	credentials.TransportCredentials

	Timeout    time.Duration
	MaxStreams int
}

// ServerHandshake implements [credentials.TransportCredentials].
func (c *Windows) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	return newWindowedConn(conn, c.Timeout, 4*c.MaxStreams), info, nil
}

// windowedConn is the server side of an HTTP/2 connection. One goroutine may read while
// one other writes.
type windowedConn struct {
	net.Conn

	timeout    time.Duration
	maxStreams int // streams that are tracked

	mu      sync.Mutex // guards all fields below
	in, out frames
	initial int64  // initial window of every stream
	whole   window // window of the connection
	streams map[uint32]window
	timer   *time.Timer
	armed   bool
}

// window is a flow-control window, and since when it has been closed.
type window struct {
	left    int64 // bytes that may be written; for a stream, relative to initial
	written int64
	closed  time.Time // when a check first found it closed; zero if the last check found it open
	before  int64     // value of written at that time
}

const (
	firstWindow = 64<<10 - 1 // RFC 9113, section 6.9.2
	checks      = 4          // per timeout
	// enough is the minimum number of bytes that a client must accept per timeout. With
	// less, the answer to a large batch would take hours.
	enough = 16 << 10
)

func newWindowedConn(conn net.Conn, timeout time.Duration, maxStreams int) *windowedConn {
	return &windowedConn{
		Conn: conn, timeout: timeout, maxStreams: maxStreams, in: frames{skip: len(http2.ClientPreface)},
		initial: firstWindow, whole: window{left: firstWindow}, streams: map[uint32]window{},
	}
}

func (c *windowedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in.scan(p[:n], c.receivedLocked)
	return n, err
}

// Write scans before it writes, because the client can react as soon as the bytes are
// out.
func (c *windowedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.out.scan(p, c.sentLocked)
	c.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *windowedConn) Close() error {
	c.mu.Lock()
	clear(c.streams)
	c.mu.Unlock()
	return c.Conn.Close()
}

// receivedLocked tracks a frame from the client.
func (c *windowedConn) receivedLocked(f frame) {
	switch f.kind {
	case http2.FrameHeaders:
		c.beginLocked(f.stream)
	case http2.FrameRSTStream:
		delete(c.streams, f.stream)
	case http2.FrameWindowUpdate:
		c.addLocked(f.stream, f.increment())
	case http2.FrameSettings:
		if size, ok := f.initialWindow(); ok {
			c.initial = size
			c.checkSoonLocked()
		}
	}
}

// sentLocked tracks a frame to the client.
func (c *windowedConn) sentLocked(f frame) {
	if f.kind == http2.FrameData {
		c.addLocked(0, int64(-f.size))
		c.addLocked(f.stream, int64(-f.size))
	}
	if f.endsStream() {
		delete(c.streams, f.stream)
	}
}

func (c *windowedConn) beginLocked(stream uint32) {
	if _, known := c.streams[stream]; known || len(c.streams) >= c.maxStreams {
		return
	}
	c.streams[stream] = window{}
	if c.initial <= 0 || c.whole.left <= 0 {
		c.checkSoonLocked()
	}
}

// addLocked adds n to the window of a stream, or of the connection for stream 0.
func (c *windowedConn) addLocked(stream uint32, n int64) {
	if stream == 0 {
		c.whole.add(n)
		if c.whole.left <= 0 {
			c.checkSoonLocked()
		}
		return
	}
	if w, known := c.streams[stream]; known {
		w.add(n)
		c.streams[stream] = w
		if c.initial+w.left <= 0 {
			c.checkSoonLocked()
		}
	}
}

func (w *window) add(n int64) {
	w.left += n
	w.written += max(0, -n)
}

// checkSoonLocked schedules a check, unless one is scheduled.
func (c *windowedConn) checkSoonLocked() {
	switch {
	case c.armed:
		return
	case c.timer == nil:
		c.timer = time.AfterFunc(c.timeout/checks, c.check)
	default:
		c.timer.Reset(c.timeout / checks)
	}
	c.armed = true
}

// check closes the connection if a window has been closed for too long. It schedules the
// next check while any window is closed.
func (c *windowedConn) check() {
	c.mu.Lock()
	c.armed = false
	closed, tooLong := c.checkAllLocked(time.Now())
	if closed && !tooLong {
		c.checkSoonLocked()
	}
	c.mu.Unlock()
	if tooLong {
		_ = c.Close() // unblocks the reader with an error
	}
}

func (c *windowedConn) checkAllLocked(now time.Time) (closed, tooLong bool) {
	if len(c.streams) == 0 { // nothing is left to write
		c.whole.closed = time.Time{}
		return false, false
	}
	closed, tooLong = c.whole.check(0, now, c.timeout)
	for stream, w := range c.streams {
		is, long := w.check(c.initial, now, c.timeout)
		closed, tooLong = closed || is, tooLong || long
		c.streams[stream] = w
	}
	return closed, tooLong
}

// check reports whether the window is closed, and whether it has been closed for the
// timeout without the client accepting enough bytes. A slow client that accepts enough is
// not cut off.
func (w *window) check(initial int64, now time.Time, timeout time.Duration) (closed, tooLong bool) {
	if initial+w.left > 0 {
		w.closed = time.Time{}
		return false, false
	}
	if w.closed.IsZero() || w.written-w.before >= enough {
		w.closed, w.before = now, w.written
	}
	return true, now.Sub(w.closed) >= timeout
}
