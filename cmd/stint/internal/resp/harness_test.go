package resp

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/decide"
)

// patience bounds every wait of the tests. A test that passes never waits this long.
const patience = 20 * time.Second

// start is the time at which the stores of the tests begin.
const start = int64(1_700_000_040_000_000)

// clock is the clock of a store; only the test moves it.
type clock struct{ micros atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.micros.Store(start)
	return c
}

func (c *clock) time() time.Time     { return time.UnixMicro(c.micros.Load()) }
func (c *clock) add(d time.Duration) { c.micros.Add(d.Microseconds()) }

// running is a server on a loopback port.
type running struct {
	*Server
	t     *testing.T
	clock *clock
	addr  string
	ended chan error

	decided atomic.Int64 // decisions
}

func run(t *testing.T, options Options) *running {
	t.Helper()
	return runOver(t, nil, options)
}

// runOver runs a server over a store; nil is a memory store with the clock of the test.
func runOver(t *testing.T, store stint.Store, options Options) *running {
	t.Helper()
	r := &running{t: t, clock: newClock(), ended: make(chan error, 1)}
	if store == nil {
		store = stint.NewMemory(stint.MemoryOptions{MaxKeys: 10_000, Clock: r.clock.time})
	}
	options.Decider = decide.New(decide.Options{Store: store, Observe: func(d decide.Report) { r.decided.Add(int64(d.Allowed + d.Denied)) }})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.Server, r.addr = New(options), l.Addr().String()
	go func() { r.ended <- r.Serve(l) }()
	t.Cleanup(func() {
		r.Stop()
		if err := <-r.ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

// client is a connection that sends and expects exact bytes.
type client struct {
	net.Conn
	t      *testing.T
	reader *bufio.Reader
}

func (r *running) dial() *client {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		r.t.Fatal(err)
	}
	return &client{conn, r.t, bufio.NewReader(conn)}
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// want reads exactly the text, in which spaces stand for line ends where
// text ends without one.
func (c *client) want(text string) {
	c.t.Helper()
	got := make([]byte, len(text))
	n, err := io.ReadFull(c.reader, got)
	if err != nil || string(got) != text {
		c.t.Errorf("got %q, %v, want %q", got[:n], err, text)
	}
}

// wantEnd reads what is left until the server closes.
func (c *client) wantEnd(rest string) {
	c.t.Helper()
	got, err := io.ReadAll(c.reader)
	if isTimeout(err) {
		c.t.Fatalf("the connection stays open; read %q", got)
	}
	if string(got) != rest {
		c.t.Errorf("got %q, want %q", got, rest)
	}
}

// encode encodes words as clients do: an array of bulk strings.
func encode(words ...string) string {
	out := appendArray(nil, len(words))
	for _, w := range words {
		out = appendBulk(out, w)
	}
	return string(out)
}

// words is encode of a line.
func words(line string) string { return encode(strings.Fields(line)...) }

// failing is a store that returns an error for every call.
type failing struct{ err error }

func (f failing) Take(context.Context, stint.Claim) (stint.Decision, error) {
	return stint.Decision{}, f.err
}

func (f failing) TakeGroups(context.Context, []stint.Group, []stint.Decision) error { return f.err }
