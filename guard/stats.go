package guard

import (
	"sync/atomic"

	"github.com/stintdev/stint/resilience/breaker"
)

// Stats are counts of a [Store] since it was made.
type Stats struct {
	// Shards are the servers that claims have been of, by name.
	Shards []ShardStats
	// Open, Closed and Local are how many claims were decided without the
	// store, by how: allowed, denied, or in memory.
	Open, Closed, Local uint64
}

// ShardStats is how the guard sees one server.
type ShardStats struct {
	Name    string // "" in a store of one server
	State   breaker.State
	Opened  uint64         // how often it was found to fail
	Refused uint64         // calls that were not made because of that
	Calls   breaker.Counts // of the last while
}

// degradedCounts count claims that were decided without the store.
type degradedCounts struct{ open, closed, local atomic.Uint64 }

// Stats may be called at any time; it locks each breaker briefly.
func (s *Store) Stats() Stats {
	if s.store == nil {
		return Stats{}
	}
	stats := Stats{Open: s.degraded.open.Load(), Closed: s.degraded.closed.Load(), Local: s.degraded.local.Load()}
	for _, sh := range s.shards.sorted() {
		stats.Shards = append(stats.Shards, ShardStats{
			Name: sh.name, State: sh.breaker.State(), Opened: sh.opened.Load(), Refused: sh.refused.Load(), Calls: sh.breaker.Counts(),
		})
	}
	return stats
}

// Up reports whether every server that claims have been of is asked: none is
// left alone because it failed. Before the first failure it is true.
func (s *Store) Up() bool { return s.store != nil && s.shards.up() }
