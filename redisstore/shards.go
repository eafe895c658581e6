package redisstore

import (
	"context"
	"time"

	"github.com/stintdev/stint"
)

// Stats is what a store knows of itself.
type Stats struct {
	// NoScript is how many calls found that the server had lost their script,
	// and brought it.
	NoScript uint64
	// ClockSkew is how far the store's clock is ahead of this process's (or of
	// Options.Clock), as of the last heartbeat, give or take half a round trip.
	ClockSkew time.Duration
	// Nodes is how many nodes announce themselves in the store, this one
	// included; 0 while it has never been reached.
	Nodes int
	// CallerBytes is what callers' states take of their budget, as of now, and
	// CallersRefused how many groups were refused because of it.
	CallerBytes    int64
	CallersRefused uint64
	// Up says whether there is a connection to every server that keeps keys.
	Up bool
}

// Stats returns what the store knows of itself now. It asks no server.
func (s *Store) Stats() Stats {
	if !s.made() {
		return Stats{}
	}
	t := s.topology
	return Stats{
		NoScript:  uint64(t.dialer.noScript.Load()),
		ClockSkew: time.Duration(t.heartbeat.skew.Load()) * time.Microsecond,
		Nodes:     int(t.heartbeat.nodes.Load()),
		Up:        t.up(),

		CallerBytes:    s.encoding.callers.bytes(),
		CallersRefused: s.encoding.callers.refused.Load(),
	}
}

// NodeCount returns how many nodes announced themselves in the store when it
// was last reached; at least 1.
func (s *Store) NodeCount() int {
	if !s.made() {
		return 1
	}
	return max(1, int(s.topology.heartbeat.nodes.Load()))
}

// ShardOf returns the address of the server that a claim's key lives on, as
// far as is known; empty when the store has one server.
func (s *Store) ShardOf(c *stint.Claim) string {
	if !s.made() || s.options.Topology != Cluster {
		return ""
	}
	return s.topology.nodeOf(s.slotOfClaim(c)).name
}

// Probe reports whether a shard serves: it connects to it if need be, and has
// it run a script that writes. It works also while the shard is stopped, and
// takes at most Options.Timeout. A shard that the Cluster does not have any more
// is well: its keys are served by another.
func (s *Store) Probe(ctx context.Context, shard string) error {
	if !s.made() {
		return errNotMade
	}
	if n := s.topology.byName(shard); n != nil {
		return n.probe(ctx)
	}
	return nil
}

// Stop closes the connections to a shard at once, so that nothing more is sent
// there. Until [Store.Start] its checks fail with CodeUnavailable; those in the
// air fail with CodeTimeout, for they may have been charged.
func (s *Store) Stop(shard string) {
	if !s.made() {
		return
	}
	if n := s.topology.byName(shard); n != nil {
		n.stop()
	}
}

// Start ends a [Store.Stop].
func (s *Store) Start(shard string) {
	if !s.made() {
		return
	}
	if n := s.topology.byName(shard); n != nil {
		n.start()
	}
}
