package redisstore

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/redis/rueidis"
)

// link is a client of one server and the connections of that client. It tracks the
// connections to be able to cut them, because closing a client waits for its pending
// calls.
type link struct {
	addr   string
	client rueidis.Client

	use    sync.RWMutex // read-held by calls
	closed bool         // guarded by use

	ctx context.Context //nolint:containedctx // ends with the link, and what is being dialed with it
	end context.CancelFunc
	mu  struct {
		sync.Mutex

		cut   bool
		conns map[*keptConn]struct{}
	}
}

func newLink(addr string) *link {
	l := &link{addr: addr}
	l.ctx, l.end = context.WithCancel(context.Background())
	l.mu.conns = map[*keptConn]struct{}{}
	return l
}

// enter keeps the link open until leave. It returns false if the link is closed or
// about to be closed: a caller that entered then would wait for other calls to end.
func (l *link) enter() bool {
	if !l.use.TryRLock() {
		return false
	}
	if l.closed {
		l.use.RUnlock()
		return false
	}
	return true
}

func (l *link) leave() { l.use.RUnlock() }

// notConnected wraps an error of connecting: nothing was sent.
type notConnected struct{ err error }

func (e *notConnected) Error() string { return e.err.Error() }
func (e *notConnected) Unwrap() error { return e.err }

var errCut = &notConnected{errors.New("the connection was closed from this side")}

// keep adds a connection to those that are cut with the link.
func (l *link) keep(c net.Conn) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.cut {
		_ = c.Close() // nothing was sent on it
		return nil, errCut
	}
	kept := &keptConn{Conn: c, link: l}
	l.mu.conns[kept] = struct{}{}
	return kept, nil
}

// keptConn is a connection that its link stops tracking on Close.
type keptConn struct {
	net.Conn

	link *link
}

func (c *keptConn) Close() error {
	c.link.mu.Lock()
	delete(c.link.mu.conns, c)
	c.link.mu.Unlock()
	return c.Conn.Close()
}

// cut closes the connections at once and drops what the kernel has not sent yet.
// Calls that wait for replies fail.
func (l *link) cut() {
	l.end()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.cut = true
	for c := range l.mu.conns {
		drop(c.Conn)
	}
	clear(l.mu.conns)
}

func drop(c net.Conn) {
	under := c
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		under = t.NetConn() // of TLS, whose own Close would wait for a lock or write a farewell
	}
	if tcp, ok := under.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // an error: it has ended already
	}
	_ = under.Close() // likewise
}

// close closes the client after the calls in flight have ended.
func (l *link) close() {
	l.use.Lock()
	l.closed = true
	l.use.Unlock()
	if l.client != nil {
		l.client.Close()
	}
	l.cut()
}
