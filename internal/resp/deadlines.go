package resp

import (
	"crypto/tls"
	"time"
)

// deadlines are those of one connection, as they were last set. To set one
// costs as much as to decide, so it is done when it has become due, not with
// every command.
type deadlines struct {
	now         time.Time // of the last read
	read, write time.Time
	partial     bool // read is that of a command of which a part has arrived
}

// limitRead bounds the wait for what comes next. The bound of a command counts
// from its first part, however it trickles in.
func (c *conn) limitRead() {
	t, o := &c.times, &c.server.options
	if t.now.IsZero() {
		t.now = time.Now()
	}
	switch {
	case !c.authorized:
		if t.read.IsZero() {
			c.readUntil(t.now.Add(o.CommandTimeout))
		}
	case len(c.in.unread()) > 0:
		if !t.partial {
			t.partial = true
			c.readUntil(t.now.Add(o.CommandTimeout))
		}
	case t.read.Sub(t.now) < o.IdleTimeout-o.IdleTimeout/8 || t.read.Sub(t.now) > o.IdleTimeout:
		c.readUntil(t.now.Add(o.IdleTimeout))
	}
	if end := c.server.drainEnd.Load(); end != nil {
		c.readUntil(*end) // Drain may have come before the deadline that was set last
	}
}

func (c *conn) readUntil(at time.Time) {
	c.times.read = at
	_ = c.net.SetReadDeadline(at)
}

// limitWrite bounds how long the client may take to read.
func (c *conn) limitWrite() {
	t, timeout := &c.times, c.server.options.WriteTimeout
	if t.write.Sub(t.now) < timeout {
		t.write = t.now.Add(2 * timeout)
		_ = c.net.SetWriteDeadline(t.write)
	}
}

// shakeHands bounds the handshake of TLS like the first command.
func (c *conn) shakeHands() bool {
	secured, ok := c.net.(*tls.Conn)
	if !ok {
		return true
	}
	_ = secured.SetDeadline(time.Now().Add(c.server.options.CommandTimeout))
	if err := secured.HandshakeContext(c.server.base); err != nil {
		c.server.options.Logger.Debug("TLS handshake failed", "error", err.Error())
		return false
	}
	return true
}
