package resp

import (
	"fmt"
	"net"
	"runtime/debug"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/decide"
)

// conn is one connection, served by one goroutine.
type conn struct {
	server *Server
	net    net.Conn
	id     int64
	in     input
	parser parser
	keys   decide.Strings
	work   *work // while commands are answered

	proto      int // 2 or 3
	name       string
	authorized bool
	quit       bool // answer what is pending, then close

	lastQuota quota
	lastLimit stint.Limit

	times deadlines
}

// serve answers commands until the client disconnects, breaks the protocol or exceeds
// a deadline.
func (c *conn) serve() {
	defer c.recover()
	for ok := c.shakeHands(); ok && !c.quit && c.read(); {
		c.answer()
	}
}

// recover logs a panic of this connection, so that it does not end the process.
func (c *conn) recover() {
	if p := recover(); p != nil {
		c.server.options.Logger.Error("panic serving resp", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	}
}

// read waits for more data from the client.
func (c *conn) read() bool {
	room := c.in.room()
	c.limitRead()
	n, err := c.net.Read(room)
	c.in.filled(n)
	return n > 0 || err == nil
}

// answer processes every complete command that has arrived.
func (c *conn) answer() {
	w := c.server.works.Get().(*work) //nolint:forcetypeassert // the pool holds nothing else
	c.work, w.started = w, time.Now()
	c.times.now = w.started
	for !c.quit {
		c.parser.stranger = !c.authorized
		n, err := c.parser.next(c.in.unread())
		if err != nil {
			c.breakOff(err)
			break
		}
		if n == 0 {
			break
		}
		c.in.took(n)
		c.times.partial = false
		c.handle(c.parser.args)
	}
	c.decide()
	c.flush()
	c.work = nil
	c.server.release(w)
}

// handle answers one command, or queues it.
func (c *conn) handle(args [][]byte) {
	switch {
	case len(args) == 0:
	case c.authorized && isThrottle(args[0]):
		c.throttle(args)
	default:
		c.decide() // answers keep the order of the commands
		c.run(args)
		c.flushIfLong()
	}
}

// breakOff answers a protocol error and closes the connection: the parser cannot
// resume after one.
func (c *conn) breakOff(err error) {
	c.decide()
	c.work.out = appendError(c.work.out, "ERR Protocol error: "+err.Error())
	c.quit = true
}

func (c *conn) flushIfLong() {
	if len(c.work.out) >= maxOut {
		c.flush()
	}
}

// flush writes the answers. It closes the connection if the client does not read them
// in time.
func (c *conn) flush() {
	out := c.work.out
	c.work.out = out[:0]
	if len(out) == 0 {
		return
	}
	c.limitWrite()
	if _, err := c.net.Write(out); err != nil {
		c.quit = true
	}
}

// The first and the largest size of an input's buffer.
const (
	firstRoom = 4 << 10
	mostRoom  = maxCommand
)

// input buffers the data that was received and not yet parsed.
type input struct {
	buffer   []byte
	from, to int
}

func (in *input) unread() []byte { return in.buffer[in.from:in.to] }

func (in *input) took(n int) { in.from += n }

func (in *input) filled(n int) { in.to += n }

// room returns free space for the next read. It is never empty, because the parser
// refuses a command before it fills mostRoom. The buffer doubles, up to mostRoom, when
// the client has filled it.
func (in *input) room() []byte {
	filled := in.to == len(in.buffer)
	if size := len(in.buffer); filled && size < mostRoom {
		next := make([]byte, max(firstRoom, min(2*size, mostRoom)))
		in.to, in.from = copy(next, in.unread()), 0
		in.buffer = next
		return in.buffer[in.to:]
	}
	if in.from > 0 {
		in.to, in.from = copy(in.buffer, in.unread()), 0
	}
	return in.buffer[in.to:]
}
