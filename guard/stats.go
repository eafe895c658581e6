package guard

import (
	"sync/atomic"

	"github.com/stintdev/stint/resilience/breaker"
)

// Stats are counts of a [Store] since it was made.
type Stats struct {
	// Shards are the servers that claims have been of, by name. Each is followed
	// by its replicas once a call has waited for them.
	Shards []ShardStats
	// Open, Closed and Local are how many claims were decided without the
	// store, by how: allowed, denied, or in memory.
	Open, Closed, Local uint64
}

// ShardStats is how the guard sees one server.
type ShardStats struct {
	// Name is "" in a store of one server. Calls that wait for replicas are
	// judged apart from the others to their server, and appear under its name
	// with " replicas" behind it, or under "replicas".
	Name  string
	State breaker.State
	// Replicas says that it is the calls that wait for the server's replicas.
	Replicas bool
	Opened   uint64         // how often it was found to fail
	Refused  uint64         // calls that were not made because of that
	Calls    breaker.Counts // of the last while
}

// degradedCounts count claims that were decided without the store.
type degradedCounts struct{ open, closed, local atomic.Uint64 }

// Stats may be called at any time; it locks each breaker briefly.
func (s *Store) Stats() Stats {
	if !s.made() {
		return Stats{}
	}
	stats := Stats{Open: s.degraded.open.Load(), Closed: s.degraded.closed.Load(), Local: s.degraded.local.Load()}
	for _, sh := range s.shards.sorted() {
		replicas := sh.server != nil
		if replicas && !sh.asked.Load() {
			continue
		}
		stats.Shards = append(stats.Shards, ShardStats{
			Name: sh.name, Replicas: replicas, State: sh.breaker.State(), Opened: sh.opened.Load(), Refused: sh.refused.Load(), Calls: sh.breaker.Counts(),
		})
	}
	return stats
}

// Up reports whether every server that claims have been of is asked: none is
// left alone because it failed. Before the first failure it is true. Replicas
// that fail do not count: their server is up.
func (s *Store) Up() bool { return s.made() && s.shards.up() }
