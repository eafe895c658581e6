package redisstore

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/redis/rueidis"
)

// conn is the client of one server with its network connections. It tracks these to be
// able to cut them, because closing a client waits for its pending calls.
type conn struct {
	addr   string
	client rueidis.Client
	shared bool // the client is Options.Client, so its connections stay open

	use    sync.RWMutex // read-held by calls
	closed bool         // guarded by use

	ctx context.Context //nolint:containedctx // ends with the conn, which cancels its dialing
	end context.CancelFunc
	mu  struct {
		sync.Mutex

		cut     bool
		tracked map[*trackedConn]struct{}
	}
}

func newConn(addr string) *conn {
	c := &conn{addr: addr}
	c.ctx, c.end = context.WithCancel(context.Background())
	c.mu.tracked = map[*trackedConn]struct{}{}
	return c
}

// enter keeps the conn open until leave. It returns false if the conn is closed or
// about to be closed: a caller that entered then would wait for other calls to end.
func (c *conn) enter() bool {
	if !c.use.TryRLock() {
		return false
	}
	if c.closed {
		c.use.RUnlock()
		return false
	}
	return true
}

func (c *conn) leave() { c.use.RUnlock() }

// notConnected wraps an error of connecting: nothing was sent.
type notConnected struct{ err error }

func (e *notConnected) Error() string { return e.err.Error() }
func (e *notConnected) Unwrap() error { return e.err }

var errCut = &notConnected{errors.New("the connection was closed from this side")}

// track adds a network connection to those that cut closes.
func (c *conn) track(network net.Conn) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.cut {
		_ = network.Close() // nothing was sent on it
		return nil, errCut
	}
	tracked := &trackedConn{Conn: network, owner: c}
	c.mu.tracked[tracked] = struct{}{}
	return tracked, nil
}

// trackedConn is a network connection that its owner stops tracking on Close.
type trackedConn struct {
	net.Conn

	owner *conn
}

func (c *trackedConn) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.mu.tracked, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}

// cut closes the network connections at once and drops what the kernel has not sent yet.
// Calls that wait for replies fail.
func (c *conn) cut() {
	c.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.cut = true
	for tracked := range c.mu.tracked {
		drop(tracked.Conn)
	}
	clear(c.mu.tracked)
}

func drop(c net.Conn) {
	under := c
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		under = t.NetConn() // TLS's own Close would wait for a lock or write a close_notify
	}
	if tcp, ok := under.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails if the connection has ended already
	}
	_ = under.Close() // fails if the connection has ended already
}

// close closes the client after the calls in flight have ended.
func (c *conn) close() {
	c.use.Lock()
	c.closed = true
	c.use.Unlock()
	if c.client != nil && !c.shared {
		c.client.Close()
	}
	c.cut()
}
