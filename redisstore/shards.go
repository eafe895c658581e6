package redisstore

import (
	"context"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// Shards implements [storekit.Sharded], for stores that wrap this one. A shard is named
// by the address of its server; a store of one server has one shard, named "".
func (s *Store) Shards() storekit.Shards { return shards{s} }

// shards are the servers of a store.
type shards struct{ store *Store }

// Of returns the shard of a claim, as far as the store knows.
func (s shards) Of(c *stint.Claim) string {
	if !s.store.made() || s.store.options.Topology != Cluster {
		return ""
	}
	return s.store.topology.nodeOf(s.store.slotOfClaim(c)).name
}

// Probe connects to the shard if necessary and runs a script that writes. It takes at
// most Options.Timeout. For a shard that has left the Cluster it returns nil, because
// another shard serves its keys.
func (s shards) Probe(ctx context.Context, shard string) error {
	if !s.store.made() {
		return errNotMade
	}
	if n := s.node(shard); n != nil {
		return n.probe(ctx)
	}
	return nil
}

// Stop closes the connections to a shard. Until Start its checks fail with
// CodeUnavailable. Checks in flight fail with CodeTimeout, because they may have been
// charged.
func (s shards) Stop(shard string) {
	if n := s.node(shard); n != nil {
		n.stop()
	}
}

func (s shards) Start(shard string) {
	if n := s.node(shard); n != nil {
		n.start()
	}
}

// node returns the node of a shard, or nil if there is no such shard (any more).
func (s shards) node(shard string) *node {
	if !s.store.made() {
		return nil
	}
	return s.store.topology.byName(shard)
}
