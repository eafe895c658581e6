package redisstore

import "context"

// topology is the servers of a store, and which of them keeps which key. It is
// safe for use by many goroutines.
type topology struct {
	nodes []*node
}

// newTopology starts to watch the servers in the background. The scripts are
// loaded on each of them when it is connected to.
func newTopology(o *Options, scripts ...*script) *topology {
	return &topology{}
}

// nodeOf returns the server that keeps a key; never nil. On a Cluster that has
// not been reached yet it is one of the given addresses, whose answer will say
// where the key lives.
func (t *topology) nodeOf(key string) *node { return nil }

// all returns the servers that keep keys, as known now.
func (t *topology) all() []*node { return nil }

// byName returns the server of a shard's name, nil when there is none (any
// more).
func (t *topology) byName(shard string) *node { return nil }

// close ends all connections and everything in the background, and waits for it.
func (t *topology) close() {}

// node is one server, or the master that a Sentinel set names.
type node struct {
	name string // of its shard: the address in a Cluster, else empty
}

// call runs scripts in one round trip, in order, and fills one reply each.
// Without an error of its own it never repeats a call that may have run.
func (n *node) call(ctx context.Context, calls []invocation, replies []reply) {}

// stop closes the connections at once: nothing more is sent, and calls fail
// until start.
func (n *node) stop() {}

// start lets calls through again.
func (n *node) start() {}

// probe reports whether the server takes a script call that writes. It works
// while the node is stopped; the connection that it made is kept.
func (n *node) probe(ctx context.Context) error { return nil }
