package server

import (
	"cmp"
	"slices"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/metrics"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
)

// announcedShards bounds the servers of the store that a node announces.
const announcedShards = 32

// status returns the state of this node, which it announces to the nodes that share its rules.
func (s *Server) status() *ruleset.NodeStatus {
	state := &ruleset.NodeStatus{Started: s.started.UTC(), StoreUp: s.calls.Up()}
	if kind, at := s.calls.LastFailure(); kind != "" {
		state.LastError = &ruleset.NodeError{Kind: kind, Time: at.UTC()}
	}
	if s.config.Stats != nil {
		stats := s.config.Stats()
		state.Memory = &ruleset.NodeMemory{Keys: stats.Keys, MaxKeys: s.config.MaxKeys, Evictions: stats.Evictions}
	}
	if s.config.Shared == nil {
		return state
	}
	shared := s.config.Shared()
	state.StoreUp = shared.Up
	if l := shared.Lease; l != nil {
		state.Leases = &ruleset.NodeLeases{Keys: l.Keys, Tokens: l.Held}
	}
	// Breakers that are open and clocks that differ most come first, because the rest is left out.
	clocks := first(shared.Clocks, func(a, b metrics.ClockStats) int { return cmp.Compare(b.Skew.Abs(), a.Skew.Abs()) })
	for _, c := range clocks {
		state.Clocks = append(state.Clocks, ruleset.NodeClock{Shard: c.Shard, SkewMS: float64(c.Skew) / float64(time.Millisecond), Measured: c.Measured.UTC()})
	}
	breakers := first(shared.Breakers, func(a, b metrics.BreakerStats) int {
		return cmp.Or(-compareBools(a.Open, b.Open), cmp.Compare(b.Opens, a.Opens))
	})
	for _, b := range breakers {
		state.Breakers = append(state.Breakers, ruleset.NodeBreaker{Shard: b.Shard, Open: b.Open, Opens: b.Opens, Refused: b.Refused})
	}
	state.MoreShards = max(len(shared.Clocks)-len(clocks), len(shared.Breakers)-len(breakers))
	return state
}

// first returns the first announcedShards elements in an order, if there are more.
func first[T any](list []T, order func(a, b T) int) []T {
	if len(list) <= announcedShards {
		return list
	}
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, order)
	return sorted[:announcedShards]
}

// compareBools orders false before true.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
