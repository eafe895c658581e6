package slowclient

import (
	"context"
	"hash/maphash"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// AddressOptions configures [Addresses].
type AddressOptions struct {
	// Trusted are proxies, whose connections carry many clients: they are not tracked.
	Trusted []netip.Prefix
	// MaxConnections is the greatest number of open connections of one address. 0 sets no
	// bound.
	MaxConnections int
	// RefuseFor is how long new connections of an address are closed after too many
	// denials in a row. 0 closes none, and counts no denials by address.
	RefuseFor time.Duration
	// Clock defaults to [time.Now].
	Clock func() time.Time
}

// Addresses tracks the client addresses of a listener. It closes new connections of an
// address that has been denied too often ([Denials]) or that has too many connections,
// right after they are accepted: before TLS, and without an answer. If AddressOptions sets
// neither bound, it only lets [Denials] count on the connections.
//
// An IPv6 address counts as its /64 network, which one client can fill with addresses. An
// IPv4 address inside IPv6 counts as the IPv4 address.
//
// The problem: anybody can connect from very many addresses, so the table must be bounded,
// and a flood of addresses must neither push out those with the most denials nor have
// others refused. The approach: addresses hash into buckets of 8 entries. An address that
// meets a full bucket takes the place of the entry with the fewest denials, but never of
// one with an open connection or under refusal. If the whole bucket is of those, the
// address is not tracked: its connections are admitted, and each still has its own count of
// denials. So the trade-off is that a botnet with an open connection in every entry hides
// further addresses from the bounds per address, and from nothing else. The bound is 16,384
// entries of about 300 bytes.
type Addresses struct {
	options AddressOptions
	seed    maphash.Seed
	buckets [addressBuckets]addressBucket

	stats struct{ refused, overLimit, untracked, began, closed atomic.Uint64 }
	last  atomic.Pointer[netip.Addr] // the newest address of a refusal or over the limit
}

const (
	addressBuckets = 2048
	bucketEntries  = 8
	// rowMemory is how long the denials of an address without connections count.
	rowMemory = time.Minute
	// closePause lets net/http write the rest of an answer, after which it already counts
	// an HTTP/2 connection as idle.
	closePause = 100 * time.Millisecond
)

type addressBucket struct {
	sync.Mutex

	entries [bucketEntries]*address
}

// address is the state of one client address. It stays in its bucket while it has
// connections.
type address struct {
	of      netip.Addr // an IPv4 address, or the first address of an IPv6 /64
	bucket  *addressBucket
	denials atomic.Int64 // consecutive denials over all connections

	// The bucket guards the fields below.
	until time.Time // end of the refusal
	left  time.Time // when the last connection ended
	open  map[*trackedConn]struct{}
}

// AddressStats are counts since the start.
type AddressStats struct {
	Refusals  uint64 // times that an address began to be refused
	Refused   uint64 // connections closed because their address was refused
	OverLimit uint64 // connections closed because their address had MaxConnections
	Untracked uint64 // connections admitted without an entry, because their bucket was full
	Closed    uint64 // connections that were ended because of denials
	// Last is the address that was last refused or had MaxConnections: of an IPv6 /64 its
	// first address.
	Last netip.Addr
}

// NewAddresses returns a table without addresses.
func NewAddresses(o AddressOptions) *Addresses {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Addresses{options: o, seed: maphash.MakeSeed()}
}

// Stats returns the counts.
func (a *Addresses) Stats() AddressStats {
	s := AddressStats{Refusals: a.stats.began.Load(), Refused: a.stats.refused.Load(), OverLimit: a.stats.overLimit.Load(),
		Untracked: a.stats.untracked.Load(), Closed: a.stats.closed.Load()}
	if last := a.last.Load(); last != nil {
		s.Last = *last
	}
	return s
}

// Listener returns a listener that tracks the connections of l. It must be the innermost
// wrapper of l.
func (a *Addresses) Listener(l net.Listener) net.Listener { return &addressListener{l, a} }

type addressListener struct {
	net.Listener

	addresses *Addresses
}

// Accept implements [net.Listener]. It closes refused connections and goes on.
func (l *addressListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if admitted := l.addresses.admit(c); admitted != nil {
			return admitted, nil
		}
		abort(c)
	}
}

// abort closes a connection by a reset, which leaves no state in the kernel.
func abort(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // a closing handshake would work too
	}
	_ = c.Close() // nothing was written
}

// admit returns the connection to serve, or nil if it is refused. Connections of trusted
// proxies, and those without an IP address, are returned as they are.
func (a *Addresses) admit(raw net.Conn) net.Conn {
	from, ok := clientAddress(raw)
	if !ok || slices.ContainsFunc(a.options.Trusted, func(t netip.Prefix) bool { return t.Contains(from) }) {
		return raw
	}
	c := &trackedConn{conn: conn{raw}, addresses: a}
	if a.options.MaxConnections <= 0 && a.options.RefuseFor <= 0 {
		return c // nothing is bounded by address
	}
	from = network(from)
	b := &a.buckets[maphash.Comparable(a.seed, from)%addressBuckets]
	b.Lock()
	defer b.Unlock()
	now := a.options.Clock()
	e := b.findLocked(from, now)
	switch {
	case e == nil:
		a.stats.untracked.Add(1)
		return c
	case e.until.After(now):
		a.stats.refused.Add(1)
		return nil
	case a.options.MaxConnections > 0 && len(e.open) >= a.options.MaxConnections:
		a.stats.overLimit.Add(1)
		a.last.Store(&e.of)
		return nil
	}
	c.from = e
	e.open[c] = struct{}{}
	return c
}

// clientAddress returns the address of a connection's peer, unmapped and without zone.
func clientAddress(c net.Conn) (netip.Addr, bool) {
	if t, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		from := t.AddrPort().Addr().Unmap().WithZone("")
		return from, from.IsValid()
	}
	return netip.Addr{}, false
}

// network returns the address as which a client counts.
func network(from netip.Addr) netip.Addr {
	if p, err := from.Prefix(64); err == nil && from.Is6() {
		return p.Addr()
	}
	return from
}

// findLocked returns the entry of an address, which it makes if there is none. It returns
// nil if the bucket has no room.
func (b *addressBucket) findLocked(from netip.Addr, now time.Time) *address {
	place := -1
	for i, e := range b.entries {
		switch {
		case e == nil || e.of != from && e.forgettableLocked(now):
			b.entries[i], place = nil, i
		case e.of == from:
			if e.forgettableLocked(now) {
				e.denials.Store(0)
			}
			return e
		}
	}
	if place < 0 {
		place = b.leastLocked(now)
	}
	if place < 0 {
		return nil
	}
	b.entries[place] = &address{of: from, bucket: b, open: make(map[*trackedConn]struct{}, 1)}
	return b.entries[place]
}

// forgettableLocked reports whether nothing of the entry counts any more.
func (e *address) forgettableLocked(now time.Time) bool {
	return e.evictableLocked(now) && (e.denials.Load() == 0 || now.Sub(e.left) > rowMemory)
}

func (e *address) evictableLocked(now time.Time) bool {
	return len(e.open) == 0 && !e.until.After(now)
}

// leastLocked returns the evictable entry with the fewest denials, or −1.
func (b *addressBucket) leastLocked(now time.Time) int {
	place := -1
	for i, e := range b.entries {
		if e.evictableLocked(now) && (place < 0 || e.denials.Load() < b.entries[place].denials.Load()) {
			place = i
		}
	}
	return place
}

// refuse has new connections of an address closed for RefuseFor, and ends its open ones:
// idle ones soon, others with their next answer or when they become idle, so that no answer
// is cut off.
func (a *Addresses) refuse(e *address) {
	var idle []*trackedConn
	e.bucket.Lock()
	now := a.options.Clock()
	if e.until.After(now) {
		e.bucket.Unlock()
		return // another connection was faster
	}
	e.until = now.Add(a.options.RefuseFor)
	e.denials.Store(0)
	for o := range e.open {
		if o.ending.Store(true); o.idle.Load() {
			idle = append(idle, o)
		}
	}
	e.bucket.Unlock()
	a.stats.began.Add(1)
	a.last.Store(&e.of)
	for _, o := range idle {
		o.closeSoon()
	}
}

// trackedConn is a client connection of a tracked listener.
type trackedConn struct {
	conn

	addresses *Addresses
	from      *address     // nil: only the connection itself is tracked
	denials   atomic.Int64 // consecutive denials
	idle      atomic.Bool  // waits for a request
	ending    atomic.Bool  // the next answer ends it
	ended     atomic.Bool  // counted as ended
	closed    atomic.Bool
}

// allowed ends the rows of denials.
func (c *trackedConn) allowed() {
	if c.denials.Load() > 0 {
		c.denials.Store(0)
	}
	if c.from != nil && c.from.denials.Load() > 0 {
		c.from.denials.Store(0)
	}
}

// denied counts a denial, and reports whether the connection is to end: its own row, or
// that of its address, has reached most.
func (c *trackedConn) denied(most int64) bool {
	row := c.denials.Add(1) >= most
	if e := c.from; e != nil && c.addresses.options.RefuseFor > 0 && e.denials.Add(1) >= most {
		c.addresses.refuse(e)
	}
	return row || c.ending.Load()
}

// nearEnd reports whether the next denial may end the connection.
func (c *trackedConn) nearEnd(most int64) bool {
	return c.denials.Load() >= most-1 || c.from != nil && c.from.denials.Load() >= most-1
}

// countEnd counts the connection as ended because of denials.
func (c *trackedConn) countEnd() {
	if !c.ended.Swap(true) {
		c.addresses.stats.closed.Add(1)
	}
}

// closeSoon closes the connection if it is still idle after a pause.
func (c *trackedConn) closeSoon() {
	time.AfterFunc(closePause, func() {
		if c.idle.Load() {
			c.countEnd()
			_ = c.Close() // the client may have closed it before
		}
	})
}

// Close implements [net.Conn].
func (c *trackedConn) Close() error {
	if e := c.from; e != nil && !c.closed.Swap(true) {
		e.bucket.Lock()
		delete(e.open, c)
		if len(e.open) == 0 {
			e.left = c.addresses.options.Clock()
		}
		e.bucket.Unlock()
	}
	return c.Conn.Close()
}

// trackedIn returns the tracked connection inside wrappers, or nil.
func trackedIn(c net.Conn) *trackedConn {
	for {
		switch wrapper := c.(type) {
		case *trackedConn:
			return wrapper
		case interface{ NetConn() net.Conn }: // of this package, of http1server, or a *tls.Conn
			c = wrapper.NetConn()
		default:
			return nil
		}
	}
}

// ConnContext is the hook [http.Server.ConnContext], by which requests find their
// connection.
func (a *Addresses) ConnContext(ctx context.Context, c net.Conn) context.Context {
	if t := trackedIn(c); t != nil {
		return context.WithValue(ctx, connectionKey{}, t)
	}
	return ctx
}

// ConnState is the hook [http.Server.ConnState]. A connection that is to end may become idle
// only after refuse has looked: it is closed then.
func (a *Addresses) ConnState(c net.Conn, state http.ConnState) {
	t := trackedIn(c)
	if t == nil {
		return
	}
	t.idle.Store(state == http.StateNew || state == http.StateIdle)
	if state == http.StateIdle && t.ending.Load() {
		t.closeSoon()
	}
}

type connectionKey struct{}

// trackedOf returns the connection of a request, or nil.
func trackedOf(ctx context.Context) *trackedConn {
	c, _ := ctx.Value(connectionKey{}).(*trackedConn)
	return c
}
