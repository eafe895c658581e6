package redisstore

import (
	"context"
	"log/slog"
)

// topology is the servers of a store, and which of them keeps which key. It is
// safe for use by many goroutines.
type topology struct {
	dialer *dialer
	one    *node    // nil on a Cluster
	slots  *slotMap // nil but on a Cluster

	heartbeat *heartbeat
	end       context.CancelFunc // of what runs in the background
}

// newTopology connects to the servers in the background, and watches them. The
// scripts are loaded on each of them when it is connected to.
func newTopology(o *Options, scripts ...*script) *topology {
	d := &dialer{opts: o, scripts: append(scripts, probeScript, heartbeatScript), log: o.Logger}
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
	switch d.opts.Topology {
	case Cluster:
		t.slots = newSlotMap(ctx, d)
		return
	case Sentinel:
		t.one = newWatched(ctx, d)
	case Single:
		t.one = newNode(d.opts.Addrs[0], d, nil)
		t.one.name = "" // there is no other
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

// nodeOf returns the server that keeps a slot; never nil. On a Cluster that has
// not been reached yet it is one of the given addresses, whose answer will say
// where the slot is.
func (t *topology) nodeOf(slot uint16) *node {
	if t.one != nil {
		return t.one
	}
	return t.slots.nodeOf(slot)
}

// all returns the servers that keep keys, as known now.
func (t *topology) all() []*node {
	if t.one != nil {
		return []*node{t.one}
	}
	return t.slots.all()
}

// byName returns the server of a shard's name, nil when there is none (any
// more).
func (t *topology) byName(shard string) *node {
	if t.one != nil {
		return t.one
	}
	return t.slots.byName(shard)
}

// close ends all connections and everything in the background, and waits for it.
func (t *topology) close() {
	t.end()
	t.heartbeat.leave()
	t.closeNodes()
	t.dialer.close()
	t.closeNodes() // those that the background found meanwhile
}

func (t *topology) closeNodes() {
	for _, n := range t.all() {
		n.close()
	}
}
