package server

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
)

// announcedShards bounds the servers of the store that a node announces.
const announcedShards = 32

// status returns the state of this node, which it announces to the nodes that share its rules.
func (s *Server) status() *ruleset.NodeStatus {
	state := &ruleset.NodeStatus{Started: s.started.UTC(), StoreUp: true}
	if kind, at := s.lastStoreFailure(); kind != "" {
		state.LastError = &ruleset.NodeError{Kind: kind, Time: at.UTC()}
	}
	var clocks []ruleset.NodeClock
	var breakers []ruleset.NodeBreaker
	for _, store := range s.allStores() {
		if store.Stats != nil {
			stats := store.Stats()
			state.Memory = &ruleset.NodeMemory{Keys: stats.Keys, MaxKeys: store.MaxKeys, Evictions: stats.Evictions}
		}
		if store.Shared == nil {
			state.StoreUp = state.StoreUp && store.Calls.Up()
			continue
		}
		shared := store.Shared()
		state.StoreUp = state.StoreUp && shared.Up
		if l := shared.Lease; l != nil {
			if state.Leases == nil {
				state.Leases = &ruleset.NodeLeases{}
			}
			state.Leases.Keys += l.Keys
			state.Leases.Tokens += l.Held
		}
		for _, c := range shared.Clocks {
			clocks = append(clocks, ruleset.NodeClock{Shard: s.shardName(&store, c.Shard), SkewMS: float64(c.Skew) / float64(time.Millisecond), Measured: c.Measured.UTC()})
		}
		for _, b := range shared.Breakers {
			breakers = append(breakers, ruleset.NodeBreaker{Shard: s.shardName(&store, b.Shard), Open: b.Open, Opens: b.Opens, Refused: b.Refused})
		}
	}
	// Breakers that are open and clocks that differ most come first, because the rest is left out.
	state.Clocks = first(clocks, func(a, b ruleset.NodeClock) int { return cmp.Compare(math.Abs(b.SkewMS), math.Abs(a.SkewMS)) })
	state.Breakers = first(breakers, func(a, b ruleset.NodeBreaker) int {
		return cmp.Or(-compareBools(a.Open, b.Open), cmp.Compare(b.Opens, a.Opens))
	})
	state.MoreShards = max(len(clocks)-len(state.Clocks), len(breakers)-len(state.Breakers))
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
