package storekit

import (
	"context"

	"github.com/stintdev/stint"
)

// Sharded is a store that spreads its keys over several servers, each of which may
// fail alone. Package guard gives each server a circuit breaker. It treats any other
// store as one server and probes it with a peek.
type Sharded interface {
	// Shards returns the servers of the store. It returns the same ones for the
	// life of the store.
	Shards() Shards
}

// Shards are the servers of a [Sharded] store, called shards. Its methods are safe for
// use by many goroutines at once.
type Shards interface {
	// Of returns the name of the shard that has the claim's key; "" in a store of
	// one server. The claim is valid. Of must not keep it.
	Of(c *stint.Claim) string

	// Probe sends a harmless request to a shard, and returns an error unless the
	// shard could serve a check. It must also work while the shard is stopped.
	Probe(ctx context.Context, shard string) error

	// Stop closes the connections to a shard, so that nothing more is sent. It may
	// be called again for a shard that is stopped. A store without connections of
	// its own does nothing.
	Stop(shard string)
	// Start ends a Stop.
	Start(shard string)
}

// NodeCounter is a store that counts the nodes that use it, and that remembers the
// count while its servers cannot be reached. While the store fails, package guard
// divides limits by that number.
type NodeCounter interface {
	NodeCount() int // at least 1
}
