package server

import (
	"github.com/stintdev/stint/cmd/stint/internal/live"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
)

// announcedRules is the number of rules whose counts a node announces. Every node of a large
// fleet writes them to the source of the rules every five seconds.
const announcedRules = 16

// readLive reads the counters of this server, for the live view.
func (s *Server) readLive(to *live.Reading) {
	sets := make([]*metrics.SetCounters, 0, 2)
	if v := s.rules.current.Load(); v != nil {
		sets = append(sets, v.counters)
		if v.canary != nil {
			sets = append(sets, v.canary.version.counters)
		}
	}
	stores := s.allStores()
	s.metrics.ReadLive(to, stores, sets...)
	for i := range stores {
		if shared := stores[i].Shared; shared != nil {
			for _, b := range shared().Breakers {
				to.Shards = append(to.Shards, live.Shard{Name: s.shardName(&stores[i], b.Shard), Open: b.Open, Degraded: live.Policies(b.Degraded)})
			}
		}
	}
}

// traffic returns what this node announces of its last seconds; nil without an admin listener.
func (s *Server) traffic() *live.Second {
	if s.live == nil {
		return nil
	}
	return s.live.Recent(announcedRules)
}
