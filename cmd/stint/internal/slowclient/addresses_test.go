package slowclient

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// peerConn is a connection of a client at an address.
type peerConn struct {
	net.Conn

	from   net.Addr
	closed atomic.Bool
}

func (c *peerConn) RemoteAddr() net.Addr { return c.from }

func (c *peerConn) Close() error {
	c.closed.Store(true)
	return nil
}

// clients is a table of addresses, and a clock that the test advances.
type clients struct {
	*Addresses

	t   *testing.T
	now time.Time
}

func newClients(t *testing.T, o AddressOptions) *clients {
	t.Helper()
	c := &clients{t: t, now: time.Unix(1_800_000_000, 0)}
	o.Clock = func() time.Time { return c.now }
	c.Addresses = NewAddresses(o)
	return c
}

// connect returns the connection of a client, or nil if it is refused.
func (c *clients) connect(from string) *trackedConn {
	c.t.Helper()
	raw := &peerConn{from: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 1234))}
	admitted := c.admit(raw)
	if admitted == nil {
		return nil
	}
	conn := trackedIn(admitted)
	if conn == nil {
		c.t.Fatalf("%s is not tracked", from)
	}
	c.ConnState(conn, http.StateNew)
	return conn
}

// deny counts n denials on a connection and returns whether the last one ends it.
func (c *trackedConn) deny(n int, most int64) (ends bool) {
	for range n {
		ends = c.denied(most)
	}
	return ends
}

func TestDenialsOfAllConnectionsOfAnAddressCount(t *testing.T) {
	synctest.Test(t, testDenialsOfAllConnections)
}

func testDenialsOfAllConnections(t *testing.T) {
	c := newClients(t, AddressOptions{RefuseFor: 10 * time.Second})
	idle, busy, other := c.connect("192.0.2.1"), c.connect("192.0.2.1"), c.connect("192.0.2.2")
	c.ConnState(busy, http.StateActive)
	for i := range 9 {
		conn := c.connect("192.0.2.1")
		if conn == nil || conn.deny(1, 10) {
			t.Fatalf("denial %d ends a connection", i+1)
		}
		_ = conn.Close()
	}
	last := c.connect("192.0.2.1")
	c.ConnState(last, http.StateActive)
	if !last.deny(1, 10) {
		t.Error("the tenth denial does not end its connection")
	}
	late := c.connect("192.0.2.2") // becomes idle only after the refusal
	late.ending.Store(true)
	c.ConnState(late, http.StateActive)
	c.ConnState(late, http.StateIdle)
	again := c.connect("192.0.2.2") // gets another request in the pause
	again.ending.Store(true)
	c.ConnState(again, http.StateIdle)
	c.ConnState(again, http.StateActive)
	if idle.Conn.(*peerConn).closed.Load() {
		t.Error("closed while an answer may be written")
	}
	time.Sleep(closePause)
	synctest.Wait()
	for name, conn := range map[string]struct {
		conn           *trackedConn
		closed, ending bool
	}{"idle": {idle, true, true}, "busy": {busy, false, true}, "late": {late, true, true}, "used again": {again, false, true}, "of another": {other, false, false}} {
		if got := conn.conn.Conn.(*peerConn).closed.Load(); got != conn.closed || conn.conn.ending.Load() != conn.ending {
			t.Errorf("the connection %s: closed %v", name, got)
		}
	}
	if c.connect("192.0.2.1") != nil || c.connect("192.0.2.2") == nil {
		t.Error("the address can connect, or another one cannot")
	}
	c.now = c.now.Add(10 * time.Second)
	if c.connect("192.0.2.1") == nil {
		t.Error("refused for too long")
	}
	if s := c.Stats(); s.Refusals != 1 || s.Refused != 1 || s.Closed != 2 {
		t.Errorf("%+v", s)
	}
}

func TestWhatEndsARow(t *testing.T) {
	for name, pause := range map[string]func(*clients, *trackedConn) *trackedConn{
		"an allowed request on another connection": func(c *clients, conn *trackedConn) *trackedConn {
			c.connect("192.0.2.1").allowed()
			return conn
		},
		"a minute without a connection": func(c *clients, conn *trackedConn) *trackedConn {
			_ = conn.Close()
			c.now = c.now.Add(time.Minute + time.Second)
			return c.connect("192.0.2.1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClients(t, AddressOptions{RefuseFor: time.Second})
			conn := c.connect("192.0.2.1")
			for range 10 {
				conn.deny(9, 10)
				conn.denials.Store(0) // only the row of the address counts here
				conn = pause(c, conn)
			}
			if got := c.Stats().Refusals; got != 0 {
				t.Errorf("%d refusals", got)
			}
		})
	}
}

func TestOneClientIsOneAddress(t *testing.T) {
	for _, test := range []struct {
		fact, a, b string
		same       bool
	}{
		{"addresses of one /64", "2001:db8::1", "2001:db8::ffff:0:1", true},
		{"neighbouring networks", "2001:db8::1", "2001:db8:0:1::1", false},
		{"an IPv4 address in IPv6", "192.0.2.1", "::ffff:192.0.2.1", true},
		{"IPv4 addresses", "192.0.2.1", "192.0.2.2", false},
		{"zones of one link", "fe80::1%eth0", "fe80::1%eth1", true},
	} {
		c := newClients(t, AddressOptions{MaxConnections: 1})
		if c.connect(test.a) == nil || (c.connect(test.b) == nil) != test.same {
			t.Errorf("%s: want one client: %v", test.fact, test.same)
		}
	}
}

func TestConnectionsOfAnAddressAreBounded(t *testing.T) {
	c := newClients(t, AddressOptions{MaxConnections: 3})
	open := []*trackedConn{c.connect("192.0.2.1"), c.connect("192.0.2.1"), c.connect("192.0.2.1")}
	if c.connect("192.0.2.1") != nil {
		t.Fatal("a fourth connection")
	}
	_ = open[0].Close()
	_ = open[0].Close() // counts once
	if c.connect("192.0.2.1") == nil || c.connect("192.0.2.1") != nil {
		t.Error("a closed connection does not make room for one")
	}
	if open[1].deny(100, 1000) || c.Stats().Refusals != 0 {
		t.Error("denials count though RefuseFor is 0")
	}
}

func TestProxiesAndPeersWithoutAnAddressAreNotTracked(t *testing.T) {
	c := newClients(t, AddressOptions{MaxConnections: 1, Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	for _, from := range []net.Addr{&net.UnixAddr{Name: "/run/s"}, &net.TCPAddr{IP: net.ParseIP("10.1.2.3")}} {
		for range 5 {
			if got := c.admit(&peerConn{from: from}); got == nil || trackedIn(got) != nil || c.ConnContext(t.Context(), got).Value(connectionKey{}) != nil {
				t.Fatalf("%v is tracked", from)
			}
		}
	}
}

// A botnet with very many addresses can neither push out the worst offenders, nor have
// others refused, nor fill the memory.
func TestAFloodOfAddressesFreesNoOffender(t *testing.T) {
	c := newClients(t, AddressOptions{RefuseFor: time.Hour})
	offender, victim := c.connect("192.0.2.1"), c.connect("192.0.2.2")
	offender.deny(10, 10)
	_ = offender.Close()
	victim.deny(9, 10)
	_ = victim.Close()
	for i := range 200_000 {
		bot := c.connect(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))
		if bot == nil {
			t.Fatal("an address without denials is refused")
		}
		bot.deny(5, 10)
		if i%2 == 0 {
			_ = bot.Close()
		}
	}
	entries := 0
	for i := range c.buckets {
		for _, e := range c.buckets[i].entries {
			if e != nil {
				entries++
			}
		}
	}
	if s := c.Stats(); entries > addressBuckets*bucketEntries || s.Untracked == 0 {
		t.Errorf("%d entries, %+v", entries, s)
	}
	if c.connect("192.0.2.1") != nil {
		t.Error("the flood ended a refusal")
	}
	newcomer := c.connect("192.0.2.3")
	if newcomer == nil || newcomer.deny(9, 10) || !newcomer.deny(1, 10) {
		t.Error("an untracked connection has no row of its own")
	}
}

// An entry with denials gives way to one with more, not to the newest.
func TestTheFewestDenialsGiveWay(t *testing.T) {
	b := &addressBucket{}
	now := time.Unix(1_800_000_000, 0)
	add := func(i int, denials int64) {
		e := b.findLocked(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), now)
		e.denials.Store(denials)
		e.left = now
	}
	for i := range bucketEntries {
		add(i, int64(100+i))
	}
	for i := range 100 {
		add(100+i, 1)
	}
	for i := 1; i < bucketEntries; i++ {
		if e := b.findLocked(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), now); e.denials.Load() != int64(100+i) {
			t.Errorf("the address with %d denials was evicted", 100+i)
		}
	}
}

func TestRequestsFindTheirConnectionInWrappers(t *testing.T) {
	c := newClients(t, AddressOptions{MaxConnections: 1})
	tracked := c.connect("192.0.2.1")
	wrapped := tls.Server(&timedConn{conn: conn{tracked}}, &tls.Config{})
	if trackedOf(c.ConnContext(t.Context(), wrapped)) != tracked || trackedOf(t.Context()) != nil {
		t.Error("not found")
	}
}

// A table without bounds by address keeps none: denials count by connection alone.
func TestWithoutBoundsNoAddressIsKept(t *testing.T) {
	c := newClients(t, AddressOptions{})
	for range 20 {
		if conn := c.connect("127.0.0.1"); conn.from != nil || conn.deny(9, 10) || !conn.deny(1, 10) {
			t.Fatal("the denials of another connection count, or its own do not")
		}
	}
	if s := c.Stats(); s != (AddressStats{}) {
		t.Errorf("%+v", s)
	}
}

func TestTheNewestRefusedAddressIsKnown(t *testing.T) {
	c := newClients(t, AddressOptions{RefuseFor: time.Minute, MaxConnections: 1})
	c.connect("192.0.2.1").deny(2, 2)
	if got := c.Stats().Last; got != netip.MustParseAddr("192.0.2.1") {
		t.Errorf("refused: %v", got)
	}
	c.connect("2001:db8::5")
	if conn := c.connect("2001:db8::6"); conn != nil || c.Stats().Last != netip.MustParseAddr("2001:db8::") {
		t.Errorf("over the limit: %v", c.Stats().Last)
	}
}
