package guard

import (
	"sync/atomic"

	"github.com/stintdev/stint/resilience/breaker"
)

// Stats are counts of a [Store] since it was made.
type Stats struct {
	// Shards lists the servers that claims have used, by name. A server's
	// replicas follow it once a call has waited for them.
	Shards []ShardStats
	// Open, Closed and Local count the claims decided without the store:
	// allowed, denied, and decided in memory.
	Open, Closed, Local uint64
}

// ShardStats describes one server, or the replicas of one server.
type ShardStats struct {
	// Name is "" in a store of one server. Calls that wait for replicas have
	// a breaker of their own, and appear under the server's name followed by
	// " replicas", or under "replicas".
	Name  string
	State breaker.State
	// Replicas is true for the calls that wait for the server's replicas.
	Replicas bool
	Opened   uint64         // how often the breaker opened
	Refused  uint64         // calls that the breaker refused
	Calls    breaker.Counts // calls in the breaker's window
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
		if replicas && !sh.used.Load() {
			continue
		}
		stats.Shards = append(stats.Shards, ShardStats{
			Name: sh.name, Replicas: replicas, State: sh.breaker.State(), Opened: sh.opened.Load(), Refused: sh.refused.Load(), Calls: sh.breaker.Counts(),
		})
	}
	return stats
}

// Up reports whether the breaker of every server lets calls through. It is true
// before the first failure. Failing replicas do not count.
func (s *Store) Up() bool { return s.made() && s.shards.up() }
