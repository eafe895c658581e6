package live

import "math"

// Reading is what a server has counted since it started.
type Reading struct {
	Requests Requests
	// Rules has the counts of each rule in force by its id.
	Rules map[string]Counts
	// Checks and Store are the durations of checks and of calls to the store.
	Checks, Store Histogram
	// Shards are the servers of a shared store.
	Shards []Shard
}

// Requests are the requests of all surfaces, each counted once by how it ended.
type Requests struct {
	Allowed, Denied                 uint64 // by the store
	DegradedAllowed, DegradedDenied uint64 // without the store
	Errors                          uint64 // without a decision
	Unmatched                       uint64 // allowed because no rule matched
}

// Counts are the requests that one rule counted.
type Counts struct {
	Allowed  uint64 `json:"allowed,omitempty"`
	Denied   uint64 `json:"denied,omitempty"`
	Shadow   uint64 `json:"shadow,omitempty"`   // allowed in shadow mode that the rule would have denied
	Degraded uint64 `json:"degraded,omitempty"` // decided without the store
}

// Policies count claims that were decided without the store, by the failure policy that decided.
type Policies struct {
	Open      uint64 `json:"open,omitempty"`
	Closed    uint64 `json:"closed,omitempty"`
	Local     uint64 `json:"local,omitempty"`
	LastKnown uint64 `json:"last_known,omitempty"`
}

// Shard is the state of one server of the store.
type Shard struct {
	Name     string // empty if the store has only one server
	Open     bool   // the circuit breaker is open
	Degraded Policies
}

// Histogram has the number of durations up to each bound, the bounds in seconds and ascending.
// The last count is of all durations.
type Histogram struct {
	Bounds []float64
	Counts []uint64 // one more than Bounds
}

// Reset empties a histogram with these bounds.
func (h *Histogram) Reset(bounds []float64) {
	h.Bounds = bounds
	if len(h.Counts) != len(bounds)+1 {
		h.Counts = make([]uint64, len(bounds)+1)
	}
	clear(h.Counts)
}

// quantile returns the duration, in microseconds, that the given share of the durations since
// before do not exceed. It is interpolated within its bucket, as Prometheus does. Without
// durations it returns nil.
func (h *Histogram) quantile(share float64, before *Histogram) *float64 {
	since := func(i int) float64 {
		if i >= len(h.Counts) {
			return 0
		}
		if i < len(before.Counts) && before.Counts[i] <= h.Counts[i] {
			return float64(h.Counts[i] - before.Counts[i])
		}
		return float64(h.Counts[i])
	}
	all := since(len(h.Bounds))
	if all == 0 {
		return nil
	}
	rank, below, lower := share*all, 0.0, 0.0
	for i, bound := range h.Bounds {
		n := since(i)
		if n < rank {
			below, lower = n, bound
			continue
		}
		if n > below {
			lower += (bound - lower) * (rank - below) / (n - below)
		}
		return microseconds(lower)
	}
	return microseconds(lower) // beyond the last bound
}

func microseconds(seconds float64) *float64 {
	us := math.Round(seconds*1e8) / 100
	return &us
}

// since returns what a counter has counted since an earlier value. A counter that is lower than
// before has begun anew.
func since(now, before uint64) uint64 {
	if now < before {
		return now
	}
	return now - before
}

func (c Counts) since(before Counts) Counts {
	return Counts{since(c.Allowed, before.Allowed), since(c.Denied, before.Denied), since(c.Shadow, before.Shadow), since(c.Degraded, before.Degraded)}
}

func (c *Counts) add(more Counts) {
	c.Allowed += more.Allowed
	c.Denied += more.Denied
	c.Shadow += more.Shadow
	c.Degraded += more.Degraded
}

func (r Requests) since(before Requests) Requests {
	return Requests{since(r.Allowed, before.Allowed), since(r.Denied, before.Denied), since(r.DegradedAllowed, before.DegradedAllowed),
		since(r.DegradedDenied, before.DegradedDenied), since(r.Errors, before.Errors), since(r.Unmatched, before.Unmatched)}
}

func (p Policies) since(before Policies) Policies {
	return Policies{since(p.Open, before.Open), since(p.Closed, before.Closed), since(p.Local, before.Local), since(p.LastKnown, before.LastKnown)}
}

func (p Policies) plus(more Policies) Policies {
	return Policies{p.Open + more.Open, p.Closed + more.Closed, p.Local + more.Local, p.LastKnown + more.LastKnown}
}
