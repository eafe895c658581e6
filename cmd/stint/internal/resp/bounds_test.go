package resp

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/decide"
	"github.com/stintdev/stint/internal/secret"
)

// TestHostileInputEndsItsOwnConnection checks that another client is still served.
func TestHostileInputEndsItsOwnConnection(t *testing.T) {
	s := run(t, Options{})
	other := s.dial()
	for sent, want := range map[string]string{
		"*1\r\n$-5\r\n":               "-ERR Protocol error: invalid bulk length\r\n",
		"*1\r\n$2147483647\r\n":       "-ERR Protocol error: invalid bulk length\r\n",
		"*2147483647\r\n":             "-ERR Protocol error: invalid multibulk length\r\n",
		"*1\r\n*1\r\n*1\r\n*1\r\n":    "-ERR Protocol error: expected '$', got '*'\r\n",
		words("PING") + "*x\r\n":      "+PONG\r\n-ERR Protocol error: invalid multibulk length\r\n",
		"PING \"\r\n":                 "-ERR Protocol error: unbalanced quotes in request\r\n",
		"POST / HTTP/1.1\r\n":         "",
		"x\r\nHost: localhost:1\r\n":  "-ERR unknown command 'x', with args beginning with: \r\n",
		strings.Repeat("x", 64<<10):   "-ERR Protocol error: too big inline request\r\n",
		"QUIT now please\r\nPING\r\n": "+OK\r\n",
	} {
		c := s.dial()
		c.send(sent)
		c.wantEnd(want)
	}
	other.send(words("CL.THROTTLE k 0 1 1"))
	other.want(five(0, 1, 0, -1, 1))
}

// TestStrangersMaySendLittle sends more than an unauthenticated client may. After AUTH
// the same input is accepted.
func TestStrangersMaySendLittle(t *testing.T) {
	s := run(t, Options{Token: secret.Fixed("s3cret")})
	long := strings.Repeat("x", maxStranger)
	for sent, want := range map[string]string{
		"*3\r\n$4\r\nAUTH\r\n$4097\r\n": "-ERR Protocol error: invalid bulk length\r\n",
		"*17\r\n":                       "-ERR Protocol error: invalid multibulk length\r\n",
		"AUTH " + long[5:]:              "-ERR Protocol error: too big inline request\r\n",
		"*2\r\n$2000\r\n" + long[:2000] + "\r\n$2090\r\n" + long[2020:]: "-ERR Protocol error: too big request\r\n",
	} {
		c := s.dial()
		c.send(sent)
		c.wantEnd(want)
	}
	c := s.dial()
	c.send(words("AUTH s3cret") + encode("ECHO", long+long))
	c.want("+OK\r\n" + string(appendBulk(nil, long+long)))
}

// TestCommandArrivesInAnyParts sends a pipeline byte by byte.
func TestCommandArrivesInAnyParts(t *testing.T) {
	c := run(t, Options{}).dial()
	sent := words("CL.THROTTLE k 1 1 1") + "PING\r\n" + words("ECHO hi") + words("CL.THROTTLE k 1 1 1")
	for i := range sent {
		c.send(sent[i : i+1])
	}
	c.want(five(0, 2, 1, -1, 1) + "+PONG\r\n" + "$2\r\nhi\r\n" + five(0, 2, 0, -1, 2))
}

// TestAnswersKeepTheirOrder sends more at once than a batch or a buffer holds.
func TestAnswersKeepTheirOrder(t *testing.T) {
	c := run(t, Options{}).dial()
	const n = 3*maxBatch + 7
	var sent, want strings.Builder
	for i := range n {
		sent.WriteString(words("CL.THROTTLE k 9999 1 1"))
		want.WriteString(five(0, 10_000, 9_999-i, -1, i+1))
		if i%100 == 0 {
			sent.WriteString(encode("ECHO", strings.Repeat("x", i)))
			want.Write(appendBulk(nil, strings.Repeat("x", i)))
		}
	}
	go func() { _, _ = io.WriteString(c, sent.String()) }()
	c.want(want.String())
}

// TestAHundredThousandCommandsAtOnce sends all commands before it reads an answer.
func TestAHundredThousandCommandsAtOnce(t *testing.T) {
	s := run(t, Options{})
	c := s.dial()
	const n = 100_000
	go func() { _, _ = io.WriteString(c, strings.Repeat(words("CL.THROTTLE k 999999 1 1"), n)) }()
	var want []byte
	for i := range n {
		want = append(want, five(0, 1_000_000, 999_999-i, -1, i+1)...)
	}
	c.want(string(want))
}

func TestSlowClientsAreCut(t *testing.T) {
	t.Parallel()
	const soon = 50 * time.Millisecond
	for name, c := range map[string]struct {
		options Options
		sent    string
		want    string
	}{
		"idle":            {Options{IdleTimeout: soon}, "", ""},
		"idle after":      {Options{IdleTimeout: soon}, "PING\r\n", "+PONG\r\n"},
		"half a command":  {Options{CommandTimeout: soon}, "*1\r\n$4\r\nPI", ""},
		"half after":      {Options{CommandTimeout: soon}, "PING\r\n*1\r\n$4\r\nPI", "+PONG\r\n"},
		"never says who":  {Options{CommandTimeout: soon, Token: secret.Fixed("x")}, "", ""},
		"keeps not to":    {Options{CommandTimeout: soon, Token: secret.Fixed("x")}, "PING\r\nPI", "-NOAUTH Authentication required.\r\n"},
		"long idle short": {Options{CommandTimeout: time.Minute, IdleTimeout: soon}, "PING\r\n", "+PONG\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := run(t, c.options).dial()
			client.send(c.sent)
			client.wantEnd(c.want)
		})
	}
}

// TestSlowReaderIsCut sends commands and reads no answer, until the server closes the
// connection. The server must not have buffered the unsent answers.
func TestSlowReaderIsCut(t *testing.T) {
	s := run(t, Options{WriteTimeout: 50 * time.Millisecond})
	c := s.dial()
	line := []byte(strings.Repeat(words("COMMAND DOCS"), 1000))
	for {
		if _, err := c.Write(line); err != nil {
			if isTimeout(err) {
				t.Fatal("the connection stays open")
			}
			return
		}
	}
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

func TestTooManyConnectionsAreRefused(t *testing.T) {
	s := run(t, Options{MaxConns: 2})
	a, b := s.dial(), s.dial()
	for _, c := range []*client{a, b} {
		c.send(words("PING"))
		c.want("+PONG\r\n")
	}
	s.dial().wantEnd("-ERR max number of clients reached\r\n")
	a.Close()
	for s.connections() > 1 {
		runtime.Gosched()
	}
	c := s.dial()
	c.send(words("PING"))
	c.want("+PONG\r\n")
}

// TestConnectionsThatDropLeaveNothing opens connections and drops them in the middle
// of a command. They must leave nothing behind.
func TestConnectionsThatDropLeaveNothing(t *testing.T) {
	s := run(t, Options{})
	before := runtime.NumGoroutine()
	many := 10_000
	if testing.Short() {
		many = 200
	}
	parts := []string{"", "*", "*5\r\n$11\r\nCL.THR", words("CL.THROTTLE k 1 1 1"), words("PING") + "PI"}
	for i := range many {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, parts[i%len(parts)])
		if i%len(parts) > 0 {
			_ = conn.(*net.TCPConn).SetLinger(0) // like a killed client; also frees the port at once
		}
		conn.Close()
	}
	last := s.dial() // accepted after all of them
	last.send(words("PING"))
	last.want("+PONG\r\n")
	for end := time.Now().Add(patience); s.connections() > 1 || runtime.NumGoroutine() > before+2; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d connections and %d goroutines are left of %d", s.connections(), runtime.NumGoroutine(), before)
		}
	}
}

func TestDrainAnswersWhatWasSent(t *testing.T) {
	gate := make(chan struct{})
	entered := make(chan struct{})
	s := runOver(t, gated{stint.NewMemory(stint.MemoryOptions{}), entered, gate}, Options{})
	idle, busy := s.dial(), s.dial()
	idle.send(words("PING"))
	idle.want("+PONG\r\n")
	busy.send(words("CL.THROTTLE k 0 1 100000"))
	<-entered
	drained := make(chan error)
	go func() { drained <- s.Drain(t.Context()) }()
	idle.wantEnd("")
	close(gate)
	busy.wantEnd(five(0, 1, 0, -1, 100000))
	if err := <-drained; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", s.addr); err == nil {
		t.Error("connections are still accepted")
	}
}

func TestDrainEndsWithItsContext(t *testing.T) {
	gate := make(chan struct{})
	entered := make(chan struct{})
	s := runOver(t, gated{stint.NewMemory(stint.MemoryOptions{}), entered, gate}, Options{})
	c := s.dial()
	c.send(words("CL.THROTTLE k 0 1 1"))
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Drain(ctx); err == nil {
		t.Error("the call in hand was not waited for, and that is no error")
	}
	close(gate)
}

// gated is a store whose calls wait until the test releases them.
type gated struct {
	stint.Store
	entered, gate chan struct{}
}

func (g gated) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	close(g.entered)
	<-g.gate
	return g.Store.TakeGroups(ctx, groups, out)
}

func TestPanicEndsItsOwnConnection(t *testing.T) {
	s := runOver(t, panics{}, Options{})
	c := s.dial()
	c.send(words("CL.THROTTLE k 0 1 1"))
	c.wantEnd("")
	other := s.dial()
	other.send(words("PING"))
	other.want("+PONG\r\n")
}

type panics struct{ failing }

func (panics) TakeGroups(context.Context, []stint.Group, []stint.Decision) error { panic("boom") }

func TestCommandsAllocateNothing(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector drops what is pooled")
	}
	s := New(Options{Decider: decide.New(decide.Options{Store: stint.NewMemory(stint.MemoryOptions{})})})
	for _, n := range []int{1, 64} {
		sent := pipeline(n)
		c := &conn{server: s, net: &looped{sent: sent, left: 1 << 40}, proto: 2, authorized: true}
		if allocs := testing.AllocsPerRun(1000, func() { c.read(); c.answer() }); allocs > float64(n)/64 {
			t.Errorf("%v allocations for %d commands", allocs, n)
		}
	}
}
