package server

import (
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/credentials"
)

// A client of HTTP/2 says how much may be written to it: its windows. One that
// keeps them shut, and answers pings, would have grpc-go keep the answers to all
// of its calls for as long as the connection lasts, since a call ends there only
// when its answer has been written. So what is said of windows is read along,
// and whoever lets too little be written is cut off.

// windowedCredentials are those of a listener whose connections are looked
// after so, within their encryption.
type windowedCredentials struct {
	credentials.TransportCredentials

	timeout time.Duration
}

func (c *windowedCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	return newWindowedConn(conn, c.timeout), info, nil
}

// windowedConn is a server's connection of HTTP/2. One goroutine at a time may
// read, and one write.
type windowedConn struct {
	net.Conn

	timeout time.Duration

	mu      sync.Mutex // guards all below
	in, out frames
	initial int64  // what the window of a stream begins with
	whole   window // of the connection
	streams map[uint32]window
	timer   *time.Timer
	armed   bool
}

// window is how much may be written, and whether that has been nothing for long.
type window struct {
	left    int64 // of a stream, beside what all begin with
	written int64
	shut    time.Time // since when looks have found it so; zero: the last did not
	before  int64     // written by then
}

const (
	firstWindow = 64<<10 - 1 // RFC 9113, section 6.9.2
	mostStreams = 4 * maxStreams
	looks       = 4 // in the time that a window may be shut
	// enough is how much a client must let be written in that time. With less,
	// the answer to a large batch would last for hours.
	enough = 16 << 10
)

func newWindowedConn(conn net.Conn, timeout time.Duration) *windowedConn {
	return &windowedConn{
		Conn: conn, timeout: timeout, in: frames{skip: len(http2.ClientPreface)},
		initial: firstWindow, whole: window{left: firstWindow}, streams: map[uint32]window{},
	}
}

func (c *windowedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in.scan(p[:n], c.cameLocked)
	return n, err
}

// Write counts before it writes: what the client says to that may come at once.
func (c *windowedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.out.scan(p, c.goesLocked)
	c.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *windowedConn) Close() error {
	c.mu.Lock()
	clear(c.streams)
	c.mu.Unlock()
	return c.Conn.Close()
}

func (c *windowedConn) cameLocked(f frame) {
	switch f.kind {
	case http2.FrameHeaders:
		c.beginLocked(f.stream)
	case http2.FrameRSTStream:
		delete(c.streams, f.stream)
	case http2.FrameWindowUpdate:
		c.addLocked(f.stream, f.increment())
	case http2.FrameSettings:
		if size, said := f.initialWindow(); said {
			c.initial = size
			c.lookSoonLocked()
		}
	}
}

func (c *windowedConn) goesLocked(f frame) {
	if f.kind == http2.FrameData {
		c.addLocked(0, int64(-f.size))
		c.addLocked(f.stream, int64(-f.size))
	}
	if f.endsStream() {
		delete(c.streams, f.stream)
	}
}

func (c *windowedConn) beginLocked(stream uint32) {
	if _, known := c.streams[stream]; known || len(c.streams) >= mostStreams {
		return
	}
	c.streams[stream] = window{}
	if c.initial <= 0 || c.whole.left <= 0 {
		c.lookSoonLocked()
	}
}

// addLocked changes the window of a stream, or of the connection: stream 0.
func (c *windowedConn) addLocked(stream uint32, n int64) {
	if stream == 0 {
		c.whole.add(n)
		if c.whole.left <= 0 {
			c.lookSoonLocked()
		}
		return
	}
	if w, known := c.streams[stream]; known {
		w.add(n)
		c.streams[stream] = w
		if c.initial+w.left <= 0 {
			c.lookSoonLocked()
		}
	}
}

func (w *window) add(n int64) {
	w.left += n
	w.written += max(0, -n)
}

func (c *windowedConn) lookSoonLocked() {
	switch {
	case c.armed:
		return
	case c.timer == nil:
		c.timer = time.AfterFunc(c.timeout/looks, c.look)
	default:
		c.timer.Reset(c.timeout / looks)
	}
	c.armed = true
}

// look ends the connection when a window has been shut for too long, and looks
// again while one is shut.
func (c *windowedConn) look() {
	c.mu.Lock()
	c.armed = false
	shut, tooLong := c.lookAtAllLocked(time.Now())
	if shut && !tooLong {
		c.lookSoonLocked()
	}
	c.mu.Unlock()
	if tooLong {
		_ = c.Close() // whoever reads learns of it
	}
}

func (c *windowedConn) lookAtAllLocked(now time.Time) (shut, tooLong bool) {
	if len(c.streams) == 0 { // there is nothing to write
		c.whole.shut = time.Time{}
		return false, false
	}
	shut, tooLong = c.whole.look(0, now, c.timeout)
	for stream, w := range c.streams {
		is, long := w.look(c.initial, now, c.timeout)
		shut, tooLong = shut || is, tooLong || long
		c.streams[stream] = w
	}
	return shut, tooLong
}

// look reports whether a window is shut, and has been for too long. Who lets
// enough be written meanwhile is slow, and no more.
func (w *window) look(initial int64, now time.Time, timeout time.Duration) (shut, tooLong bool) {
	if initial+w.left > 0 {
		w.shut = time.Time{}
		return false, false
	}
	if w.shut.IsZero() || w.written-w.before >= enough {
		w.shut, w.before = now, w.written
	}
	return true, now.Sub(w.shut) >= timeout
}
