package redistest

import (
	"bufio"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// client is one connection, as a client of a server holds it.
type client struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &client{t, conn, bufio.NewReader(conn)}
}

func (c *client) do(within time.Duration, command string) (string, error) {
	c.t.Helper()
	if err := c.conn.SetDeadline(time.Now().Add(within)); err != nil {
		c.t.Fatal(err)
	}
	return exchange(c.conn, c.r, strings.Fields(command))
}

func (c *client) answers(command, want string) {
	c.t.Helper()
	if got, err := c.do(patience, command); err != nil || got != want {
		c.t.Errorf("%s: %q, %v; want %q", command, got, err, want)
	}
}

func (c *client) isSilent(command string) {
	c.t.Helper()
	var timeout net.Error
	if got, err := c.do(50*time.Millisecond, command); !errors.As(err, &timeout) || !timeout.Timeout() {
		c.t.Errorf("%s: %q, %v; want silence", command, got, err)
	}
}

func (c *client) answersNothing(command string) {
	c.t.Helper()
	if got, err := c.do(patience, command); err == nil {
		c.t.Errorf("%s: %q, want an error", command, got)
	}
}

func (c *client) isReset() {
	c.t.Helper()
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.r.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
		c.t.Errorf("read: %v, want a reset", err)
	}
}

func TestProxyPassesOnAtFirst(t *testing.T) {
	p := Server(t)
	c := dial(t, Proxy(t, p.Addr()).Addr())
	c.answers("SET a 1", "OK")
	c.answers("GET a", "1")
}

func TestDelayComesTwiceARoundTrip(t *testing.T) {
	f := Proxy(t, Server(t).Addr())
	c := dial(t, f.Addr())
	c.answers("PING", "PONG")
	f.Delay(20 * time.Millisecond)
	begun := time.Now()
	c.answers("PING", "PONG")
	if took := time.Since(begun); took < 40*time.Millisecond {
		t.Errorf("the round trip took %v, want at least 40 ms", took)
	}
}

func TestDelayedRequestsTravelTogether(t *testing.T) {
	f := Proxy(t, Server(t).Addr())
	f.Delay(300 * time.Millisecond)
	begun := time.Now()
	a, b := dial(t, f.Addr()), dial(t, f.Addr())
	answered := make(chan error, 1)
	go func() {
		_, err := a.do(patience, "PING")
		answered <- err
	}()
	b.answers("PING", "PONG")
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 1150*time.Millisecond { // one after the other takes 1.2 s
		t.Errorf("two round trips at once took %v", took)
	}
}

func TestPartitionLosesWhatWasSent(t *testing.T) {
	p := Server(t)
	f := Proxy(t, p.Addr())
	c := dial(t, f.Addr())
	c.answers("SET a 1", "OK")
	f.Partition()
	c.isSilent("INCR a")
	dial(t, f.Addr()).isSilent("PING")
	f.Heal()
	c.isReset()
	dial(t, f.Addr()).answers("GET a", "1")
}

func TestPartitionHidesTheEndOfTheServer(t *testing.T) {
	p := Server(t)
	f := Proxy(t, p.Addr())
	c := dial(t, f.Addr())
	c.answers("PING", "PONG")
	f.Partition()
	p.Kill()
	c.isSilent("PING")
}

func TestHeldRequestsArriveAtHeal(t *testing.T) {
	p := Server(t)
	f := Proxy(t, p.Addr())
	c := dial(t, f.Addr())
	c.answers("SET a 1", "OK")
	f.Hold()
	c.isSilent("INCR a")
	if got := p.Must("GET", "a"); got != "1" {
		t.Errorf("a is %s while requests are held", got)
	}
	f.Heal()
	Await(t, func() error {
		if got := p.Must("GET", "a"); got != "2" {
			return errors.New("a is " + got + " after the request was let go")
		}
		return nil
	})
}

func TestDroppedRepliesLeaveTheirEffect(t *testing.T) {
	p := Server(t)
	f := Proxy(t, p.Addr())
	c := dial(t, f.Addr())
	f.DropReplies()
	c.isSilent("SET a 1")
	if got := p.Must("GET", "a"); got != "1" {
		t.Errorf("a is %q: the request did not arrive", got)
	}
	f.Cut()
	c.isReset()
}

func TestResetEndsConnectionsOldAndNew(t *testing.T) {
	f := Proxy(t, Server(t).Addr())
	c := dial(t, f.Addr())
	c.answers("PING", "PONG")
	f.Reset()
	c.isReset()
	dial(t, f.Addr()).isReset()
	f.Heal()
	dial(t, f.Addr()).answers("PING", "PONG")
}

func TestCutLetsNewConnectionsPass(t *testing.T) {
	f := Proxy(t, Server(t).Addr())
	c := dial(t, f.Addr())
	c.answers("PING", "PONG")
	f.Cut()
	c.isReset()
	dial(t, f.Addr()).answers("PING", "PONG")
}

func TestProxyEndsAnOrderlyEndInOrder(t *testing.T) {
	f := Proxy(t, Server(t).Addr())
	c := dial(t, f.Addr())
	c.answers("QUIT", "OK")
	c.answersNothing("PING")
}
