package guard

import (
	"sync/atomic"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/storekit"
)

// Stats are counts of a [Store] since it was made.
type Stats struct {
	// Shards lists the servers that claims have used, by name. A server's
	// replicas follow it once a call has waited for them.
	Shards []ShardStats
	// Degraded counts the claims decided without the store, those of all shards together.
	Degraded
}

// Degraded counts claims decided without the store: allowed, denied, and decided in memory
// under FailLocal and FailLastKnown.
type Degraded struct{ Open, Closed, Local, LastKnown uint64 }

func (d *Degraded) add(n Degraded) {
	d.Open += n.Open
	d.Closed += n.Closed
	d.Local += n.Local
	d.LastKnown += n.LastKnown
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
	// Degraded counts the claims that were decided without the store because this
	// server failed. A group with keys on several servers counts for one of those that
	// failed.
	Degraded Degraded
}

// degradedCounts count claims that were decided without the store.
type degradedCounts struct{ open, closed, local, lastKnown atomic.Uint64 }

// degradedOf returns the counts of a shard. Claims without a shard, which are invalid,
// count for the store as a whole.
func (s *Store) degradedOf(sh *shard) *degradedCounts {
	if sh == nil {
		return &s.degraded
	}
	return &sh.degraded
}

func (n *degradedCounts) read() Degraded {
	return Degraded{Open: n.open.Load(), Closed: n.closed.Load(), Local: n.local.Load(), LastKnown: n.lastKnown.Load()}
}

// countLocal counts a claim with this policy that was decided in memory.
func (n *degradedCounts) countLocal(f stint.OnFailure) {
	if f == stint.FailLastKnown {
		n.lastKnown.Add(1)
	} else {
		n.local.Add(1)
	}
}

// Stats may be called at any time; it locks each breaker briefly.
func (s *Store) Stats() Stats {
	if !s.made() {
		return Stats{}
	}
	stats := Stats{Degraded: s.degraded.read()}
	for _, sh := range s.shards.sorted() {
		degraded := sh.degraded.read()
		stats.add(degraded)
		replicas := sh.server != nil
		if replicas && !sh.used.Load() {
			continue
		}
		stats.Shards = append(stats.Shards, ShardStats{
			Name: sh.name, Replicas: replicas, State: sh.breaker.State(), Opened: sh.opened.Load(), Refused: sh.refused.Load(), Calls: sh.breaker.Counts(), Degraded: degraded,
		})
	}
	return stats
}

// Metrics returns the numbers of Stats.
func (s *Store) Metrics() []storekit.Metric {
	stats := s.Stats()
	open := storekit.Metric{Name: "store_breaker_open", Help: "1 while the circuit breaker of a server of the store is open.", Label: "shard"}
	opens := storekit.Metric{Name: "store_breaker_opens", Help: "How often that circuit breaker has opened.", Label: "shard", Counter: true}
	refused := storekit.Metric{Name: "store_breaker_refused", Help: "Calls that the circuit breaker refused.", Label: "shard", Counter: true}
	for _, sh := range stats.Shards {
		is := storekit.Sample{Label: sh.Name}
		if sh.State != breaker.Closed {
			is.Value = 1
		}
		open.Samples = append(open.Samples, is)
		opens.Samples = append(opens.Samples, storekit.Sample{Label: sh.Name, Value: float64(sh.Opened)})
		refused.Samples = append(refused.Samples, storekit.Sample{Label: sh.Name, Value: float64(sh.Refused)})
	}
	return []storekit.Metric{open, opens, refused, {
		Name: "store_degraded", Help: "Claims decided without the store, by failure policy.", Label: "policy", Counter: true,
		Samples: []storekit.Sample{
			{Label: "open", Value: float64(stats.Open)}, {Label: "closed", Value: float64(stats.Closed)},
			{Label: "local", Value: float64(stats.Local)}, {Label: "last_known", Value: float64(stats.LastKnown)},
		},
	}}
}

// Up reports whether the breaker of every server lets calls through. It is true
// before the first failure. Failing replicas do not count.
func (s *Store) Up() bool { return s.made() && s.shards.up() }
