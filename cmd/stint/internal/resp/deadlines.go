package resp

import (
	"crypto/tls"
	"time"
)

// deadlines are the deadlines of one connection, as they were last set. Setting a deadline costs
// as much as a decision, so a command sets one only when the old deadline differs too much from
// the right one.
type deadlines struct {
	now         time.Time // when the last data was processed
	read, write time.Time
	partial     bool // read is the deadline of a command of which a part has arrived
}

// limitRead sets the read deadline. The deadline of a command starts with its first
// part, so a client cannot extend it by sending slowly.
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

// limitWrite sets the write deadline: the client has between WriteTimeout and twice
// that to read.
func (c *conn) limitWrite() {
	t, timeout := &c.times, c.server.options.WriteTimeout
	if t.write.Sub(t.now) < timeout {
		t.write = t.now.Add(2 * timeout)
		_ = c.net.SetWriteDeadline(t.write)
	}
}

// shakeHands runs the TLS handshake, if any, within CommandTimeout.
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
