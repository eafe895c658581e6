package lease

import "github.com/stintdev/stint/storekit"

// Stats are counts of a [Store] since it was made. Keys and Held are current values.
type Stats struct {
	Keys int   // hot keys with an entry
	Held int64 // tokens that are charged and not yet spent

	Local   uint64 // checks that were allowed without a call
	Denied  uint64 // checks that were denied without a call
	Asked   uint64 // checks that asked the store
	Renewed uint64 // background calls to the store; each carries many keys

	Granted  uint64 // tokens that leases brought
	Returned uint64 // tokens that were refunded
	Stranded uint64 // tokens neither spent nor refunded: the call failed, or their window ended
}

// counts are those of one shard, under its lock.
type counts struct {
	local, denied, asked        uint64
	granted, returned, stranded uint64
}

// Stats returns the current counts. It locks each shard briefly, one after another.
func (s *Store) Stats() Stats {
	if !s.made() {
		return Stats{}
	}
	t := Stats{Renewed: s.renewed.Load()}
	now := s.now()
	for i := range s.shards {
		s.shards[i].addTo(&t, now)
	}
	return t
}

// Metrics returns the numbers of Stats.
func (s *Store) Metrics() []storekit.Metric {
	t := s.Stats()
	return []storekit.Metric{
		storekit.Gauge("lease_keys", "Hot keys that are leased.", float64(t.Keys)),
		storekit.Gauge("lease_tokens_held", "Tokens charged and not yet spent: how much of the bound is in use.", float64(t.Held)),
		storekit.Counter("lease_asked", "Leasable claims that asked the store.", t.Asked),
		storekit.Counter("lease_renewals", "Background calls to the store, each for many keys.", t.Renewed),
		{Name: "lease_local", Help: "Claims decided without asking the store.", Label: "decision", Counter: true, Samples: []storekit.Sample{
			{Label: "allow", Value: float64(t.Local)}, {Label: "deny", Value: float64(t.Denied)},
		}},
		{Name: "lease_tokens", Help: "Tokens that leases were granted, returned, or left neither spent nor returned (stranded).", Label: "kind", Counter: true, Samples: []storekit.Sample{
			{Label: "granted", Value: float64(t.Granted)}, {Label: "returned", Value: float64(t.Returned)}, {Label: "stranded", Value: float64(t.Stranded)},
		}},
	}
}

func (sh *shard) addTo(t *Stats, now int64) {
	sh.Lock()
	defer sh.Unlock()
	t.Keys += len(sh.list)
	for _, e := range sh.list {
		t.Held += e.inHand(now)
	}
	c := &sh.count
	t.Local, t.Denied, t.Asked = t.Local+c.local, t.Denied+c.denied, t.Asked+c.asked
	t.Granted, t.Returned, t.Stranded = t.Granted+c.granted, t.Returned+c.returned, t.Stranded+c.stranded
}
