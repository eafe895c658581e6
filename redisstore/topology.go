package redisstore

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
)

// topology knows the servers of a store and which of them owns which key. It is safe for
// concurrent use.
type topology struct {
	dialer *dialer
	one    *node    // nil on a Cluster
	slots  *slotMap // nil outside a Cluster

	heartbeat *heartbeat
	end       context.CancelFunc // ends the background goroutines
}

// newTopology connects to the servers in the background and watches them. Each new
// connection loads the scripts on its server.
func newTopology(o *Options, scripts ...*script) *topology {
	d := &dialer{opts: o, scripts: append(scripts, probeScript, heartbeatScript, clockScript), log: o.Logger}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	ctx, end := context.WithCancel(context.Background())
	t := &topology{dialer: d, end: end}
	t.connect(ctx)
	t.heartbeat = newHeartbeat(ctx, t)
	return t
}

func (t *topology) connect(ctx context.Context) {
	d := t.dialer
	switch topology := d.opts.Topology; {
	case topology == Cluster:
		t.slots = newSlotMap(ctx, d)
		return
	case d.opts.Client != nil:
		t.one = newSharedNode(d)
	case topology == Sentinel:
		t.one = newWatched(ctx, d)
	default:
		t.one = newNode(d.opts.Addrs[0], d, nil)
		t.one.name = "" // it is the only shard
	}
	t.one.dial(!probing) // so that the first check finds a connection
}

// up reports whether there is a connection to every server.
func (t *topology) up() bool {
	for _, n := range t.all() {
		if n.stopped.Load() || n.conn.Load() == nil {
			return false
		}
	}
	return true
}

// nodeOf returns the server that owns a slot. It is never nil: on a Cluster that has not
// been reached yet, it is one of the given addresses, which will redirect the call.
func (t *topology) nodeOf(slot uint16) *node {
	if t.one != nil {
		return t.one
	}
	return t.slots.nodeOf(slot)
}

// all returns the known servers that own keys.
func (t *topology) all() []*node {
	if t.one != nil {
		return []*node{t.one}
	}
	return t.slots.all()
}

// byName returns the server of a shard, or nil if there is no such shard (any more).
func (t *topology) byName(shard string) *node {
	if t.one != nil {
		return t.one
	}
	return t.slots.byName(shard)
}

// Ping returns nil if every server that has keys could serve a check: it runs a script
// that writes. Ping connects to a server if necessary, and takes at most Options.Timeout.
func (s *Store) Ping(ctx context.Context) error {
	if !s.made() {
		return errNotMade
	}
	nodes := s.topology.all()
	errs := make([]error, len(nodes))
	var pings sync.WaitGroup
	for i, n := range nodes {
		pings.Go(func() { errs[i] = n.probe(ctx) })
	}
	pings.Wait()
	return cmp.Or(errs...) // of the first server; the other errors seldom differ
}

// close ends all connections and background goroutines, and waits for them.
func (t *topology) close() {
	t.end()
	t.heartbeat.leave()
	t.closeNodes()
	t.dialer.close()
	t.closeNodes() // nodes that a background goroutine added in the meantime
}

func (t *topology) closeNodes() {
	for _, n := range t.all() {
		n.close()
	}
}
