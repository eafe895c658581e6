package redisstore

import (
	"context"
	"time"

	"github.com/stintdev/stint"
)

// Stats is a snapshot of a store's counters and gauges.
type Stats struct {
	// NoScript is how many calls found their script missing on the server and were
	// sent again with the script's text.
	NoScript uint64
	// ClockSkew is how far the store's clock is ahead of this process's clock (or of
	// Options.Clock). The last heartbeat measured it, to within half a round trip.
	ClockSkew time.Duration
	// Nodes is how many nodes announce themselves in the store, including this one.
	// It is 0 until the store is first reached.
	Nodes int
	// CallerBytes is how much of Options.CallerBytes is in use. CallersRefused is how
	// many groups were refused because that budget was used up.
	CallerBytes    int64
	CallersRefused uint64
	// Up says whether the store is connected to every server that has keys.
	Up bool
}

// Stats returns the store's current counters and gauges. It asks no server.
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

// NodeCount returns how many nodes announced themselves as of the last successful
// heartbeat, and at least 1.
func (s *Store) NodeCount() int {
	if !s.made() {
		return 1
	}
	return max(1, int(s.topology.heartbeat.nodes.Load()))
}

// ShardOf returns the address of the server that has a claim's key, as far as the
// store knows. It is empty if the store has one server.
func (s *Store) ShardOf(c *stint.Claim) string {
	if !s.made() || s.options.Topology != Cluster {
		return ""
	}
	return s.topology.nodeOf(s.slotOfClaim(c)).name
}

// Probe reports whether a shard works. It connects to the shard if necessary and runs
// a script that writes. It also works while the shard is stopped, and takes at most
// Options.Timeout. For a shard that has left the Cluster it returns nil, because
// another shard serves its keys.
func (s *Store) Probe(ctx context.Context, shard string) error {
	if !s.made() {
		return errNotMade
	}
	if n := s.topology.byName(shard); n != nil {
		return n.probe(ctx)
	}
	return nil
}

// Stop closes the connections to a shard at once, so that nothing more is sent to it.
// Until [Store.Start] its checks fail with CodeUnavailable. Checks in flight fail
// with CodeTimeout, because they may have been charged.
func (s *Store) Stop(shard string) {
	if !s.made() {
		return
	}
	if n := s.topology.byName(shard); n != nil {
		n.stop()
	}
}

// Start undoes [Store.Stop].
func (s *Store) Start(shard string) {
	if !s.made() {
		return
	}
	if n := s.topology.byName(shard); n != nil {
		n.start()
	}
}
