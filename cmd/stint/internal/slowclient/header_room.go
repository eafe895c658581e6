package slowclient

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

const (
	// MaxHeaderBytes is the largest header that a [HeaderRoom] allows. Forward auth
	// receives the headers of every client of a proxy, so it is as large as the proxies of
	// docs/forward-auth.md forward. Stint cannot count a request that it refuses as too
	// large.
	MaxHeaderBytes = 64 << 10
	// freeHeaderBytes is the header size that every connection may hold without a
	// reservation, about the memory that the connection itself costs.
	freeHeaderBytes = 8 << 10
	// headerRoomBytes bounds the memory that all connections together hold beyond that.
	headerRoomBytes = 64 << 20
	// lingerTime is how long a refused connection may go on sending, as in net/http after
	// a 431.
	lingerTime = time.Second / 2
)

var errNoHeaderRoom = errors.New("the memory for large headers is used up by other connections")

// HeaderRoom is the memory budget for the large headers of all connections of a listener.
// Without it, each of a million connections that send a header slowly could hold 64 KiB.
// A connection that finds the budget used up is answered with 400; all others go on.
// Header timeouts release the memory again. Make it with [NewHeaderRoom], and use its
// Listener, ConnState and Wrap in one server whose MaxHeaderBytes is [MaxHeaderBytes].
type HeaderRoom struct{ left atomic.Int64 }

// NewHeaderRoom returns a budget of which nothing is used.
func NewHeaderRoom() *HeaderRoom {
	m := &HeaderRoom{}
	m.left.Store(headerRoomBytes)
	return m
}

// Left returns the bytes that are not reserved.
func (m *HeaderRoom) Left() int64 { return m.left.Load() }

// take reserves n bytes, and reports false if the budget has no room for them.
func (m *HeaderRoom) take(n int64) bool {
	if m.left.Add(-n) >= 0 {
		return true
	}
	m.left.Add(n)
	return false
}

// Listener returns a listener that charges the budget for the headers that the
// connections of l read.
func (m *HeaderRoom) Listener(l net.Listener) net.Listener {
	return &listener{l, func(c conn) net.Conn { return &roomConn{conn: c, room: m} }}
}

// roomConn holds a reservation while a request header arrives and is decided. It counts
// only HTTP/1; Wrap counts HTTP/2.
type roomConn struct {
	conn

	room *HeaderRoom
	mu   struct {
		sync.Mutex
		decided bool  // the header has arrived and the body follows, or the connection is closed
		http2   bool  // the client speaks HTTP/2
		preface int   // bytes of the HTTP/2 preface that have matched; -1 after a mismatch
		read    int64 // bytes of the header so far
		held    int64 // reserved bytes
		refused bool  // the header was refused because the budget was used up
	}
}

func (c *roomConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.hold(p[:n]) {
		return 0, errNoHeaderRoom
	}
	return n, err
}

// hold reserves the memory for a part of a header.
func (c *roomConn) hold(part []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.decided || c.speaksHTTP2Locked(part) {
		return true
	}
	c.mu.read += int64(len(part))
	more := min(c.mu.read, MaxHeaderBytes) - freeHeaderBytes - c.mu.held
	if more <= 0 {
		return true
	}
	if c.mu.refused = !c.room.take(more); c.mu.refused {
		return false
	}
	c.mu.held += more
	return true
}

// speaksHTTP2Locked detects the preface of HTTP/2 without TLS.
func (c *roomConn) speaksHTTP2Locked(part []byte) bool {
	for _, b := range part {
		if c.mu.http2 || c.mu.preface < 0 {
			break
		}
		if b != http2.ClientPreface[c.mu.preface] {
			c.mu.preface = -1
			break
		}
		c.mu.preface++
		c.mu.http2 = c.mu.preface == len(http2.ClientPreface)
	}
	return c.mu.http2
}

// set records whether the bytes that follow belong to no header, and optionally releases
// the reservation.
func (c *roomConn) set(decided, release bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.decided = decided
	if release {
		c.room.left.Add(c.mu.held)
		c.mu.read, c.mu.held = 0, 0
	}
}

// Close first drains what a refused client still sends. The kernel answers unread bytes
// with a reset, which can overtake the 400, and a proxy that gets a reset considers Stint
// unreachable.
func (c *roomConn) Close() error {
	c.set(true, true)
	c.mu.Lock()
	refused := c.mu.refused
	c.mu.refused = false
	c.mu.Unlock()
	if refused && c.CloseWrite() == nil && c.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		_, _ = io.Copy(io.Discard, c.Conn)
	}
	return c.Conn.Close()
}

// ConnState is the hook [http.Server.ConnState]. It learns where a header begins and ends.
func (m *HeaderRoom) ConnState(conn net.Conn, state http.ConnState) {
	secure, _ := conn.(*tls.Conn)
	if secure != nil {
		conn = secure.NetConn()
	}
	c, ok := conn.(*roomConn)
	if !ok {
		return
	}
	switch state {
	case http.StateActive:
		c.set(true, false)
	case http.StateIdle:
		// A connection that speaks HTTP/2 stays uncounted.
		c.set(secure != nil && secure.ConnectionState().NegotiatedProtocol == "h2", true)
	case http.StateNew, http.StateHijacked, http.StateClosed:
	}
}

// Wrap counts the headers of HTTP/2, whose connections carry many requests at once.
// Headers of HTTP/1 are counted as they arrive.
func (m *HeaderRoom) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor > 1 {
			if n := headerBytes(r) - freeHeaderBytes; n > 0 {
				if !m.take(n) {
					http.Error(w, errNoHeaderRoom.Error(), http.StatusRequestHeaderFieldsTooLarge)
					return
				}
				defer m.left.Add(n)
			}
		}
		next.ServeHTTP(w, r)
	})
}

func headerBytes(r *http.Request) int64 {
	n := len(r.RequestURI)
	for name, lines := range r.Header {
		for _, line := range lines {
			n += len(name) + len(line)
		}
	}
	return int64(n)
}
