package metrics

import (
	"cmp"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// SharedStats is the state of a store that nodes share.
type SharedStats struct {
	Up       bool           // the store answers
	NoScript uint64         // calls that found their script missing and loaded it
	Clocks   []ClockStats   // one per server whose clock was compared
	Nodes    int            // nodes that share the store, as far as known; 0 hides the metric
	Breakers []BreakerStats // one per server of the store
	Lease    *LeaseStats    // nil if nothing is leased

	Evictions []EvictionStats // one per server that evicts items when it is full
	Members   []MemberStats   // the servers of a quorum
	Swaps     *SwapStats      // nil if the store does not compare and swap

	// The budgets of what callers bring; nil if the store has none.
	Callers    *BudgetStats // limits
	RequestIDs *BudgetStats
}

// BudgetStats is the use of a store by what callers bring.
type BudgetStats struct {
	Bytes   int64  // upper bound on the current use
	Refused uint64 // groups refused because of the budget
}

// SwapStats are the counts of a store that compares and swaps. The first four are the
// outcomes of conditional writes.
type SwapStats struct{ Done, Early, Lost, Unknown, Locks, Throttled uint64 }

// ClockStats is the comparison of a store server's clock with this process's.
type ClockStats struct {
	Shard    string        // name of the server; empty if the store has only one
	Skew     time.Duration // how far the server's clock is ahead
	Measured time.Time
}

// EvictionStats are the evictions of one store server.
type EvictionStats struct {
	Shard string // name of the server
	Items uint64 // since the server started
}

// MemberStats is the state of one server of a quorum.
type MemberStats struct {
	Server string
	Up     bool // it answers
	Whole  bool // it has all counts
}

// BreakerStats is the state of the circuit breaker of one store server.
type BreakerStats struct {
	Shard    string // name of the server; empty if the store has only one
	Open     bool   // the circuit is open
	Opens    uint64 // number of times it has opened
	Refused  uint64 // calls that it refused
	Degraded DegradedStats
}

// DegradedStats count claims decided without the store. Its fields are those of Degraded of
// package guard.
type DegradedStats struct{ Open, Closed, Local, LastKnown uint64 }

// LeaseStats are the counts of a store that leases hot keys. Its fields are those of the
// Stats of package lease.
type LeaseStats struct {
	Keys                        int
	Held                        int64
	Local, Denied               uint64
	Asked, Renewed              uint64
	Granted, Returned, Stranded uint64
}

// StoreReader describes one store of a server.
type StoreReader struct {
	Name    string                   // empty: the default store
	Calls   *StoreCalls              // the calls to the store
	Shared  func() SharedStats       // its state; nil if it is local to the process
	Stats   func() stint.MemoryStats // its counts; nil if it is not the memory store
	MaxKeys int                      // most keys of rules that the memory store holds
}

// Label returns the name of the store as rules may write it.
func (s *StoreReader) Label() string { return cmp.Or(s.Name, rule.DefaultStore) }

// Up reports whether the store answers. A store that is not shared counts as up while its
// calls succeed.
func (s *StoreReader) Up() bool {
	if s.Shared == nil {
		return s.Calls.Up()
	}
	return s.Shared().Up
}

// ReadStores shows the calls to the stores, their state and their counts. If rules can name
// further stores beside the default one, all these families have a label store, and kept
// returns how many charges of requests that use several stores were not undone.
func (m *Metrics) ReadStores(first StoreReader, named []StoreReader, kept func() uint64) {
	if len(named) == 0 {
		first.register(m.registry)
		return
	}
	for _, s := range append([]StoreReader{first}, named...) {
		s.register(prometheus.WrapRegistererWith(prometheus.Labels{"store": s.Label()}, m.registry))
	}
	if kept != nil {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "stint_store_kept_charges_total",
			Help: "Charges of denied requests over several stores that could not be undone."}, func() float64 { return float64(kept()) }))
	}
}

func (s *StoreReader) register(to prometheus.Registerer) {
	shared, callers := s.Shared, s.Shared == nil // a shared store reports the limits of callers itself
	if shared == nil {
		shared = func() SharedStats { return SharedStats{Up: s.Calls.Up()} }
	}
	if s.Stats != nil {
		to.MustRegister(collector(func(to *scrape) { to.memory(s.Stats(), s.MaxKeys, callers) }))
	}
	to.MustRegister(s.Calls.duration, s.Calls.errors, collector(func(to *scrape) { to.shared(shared()) }))
}

// collector reads a store once per scrape. The servers of a store come and go, so their
// series are made anew each time.
type collector func(*scrape)

// Describe implements [prometheus.Collector]. It describes nothing: the registry does not
// check such a collector in advance.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c collector) Collect(to chan<- prometheus.Metric) { c(&scrape{to}) }

// scrape receives the metrics of one scrape.
type scrape struct{ to chan<- prometheus.Metric }

func (s *scrape) gauge(name, help string, value float64) {
	s.to <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue, value)
}

func (s *scrape) counter(name, help string, value uint64) {
	s.to <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, nil), prometheus.CounterValue, float64(value))
}

// family returns a function that sends one series of a family with one label.
func (s *scrape) family(kind prometheus.ValueType, name, help, label string) func(of string, value float64) {
	desc := prometheus.NewDesc(name, help, []string{label}, nil)
	return func(of string, value float64) { s.to <- prometheus.MustNewConstMetric(desc, kind, value, of) }
}

// callersRefused describes a family that stores of each kind have: a scrape has one description
// for all.
const callersRefused = "Checks of limits that callers bring, refused because their budget or share was used up."

func (s *scrape) memory(stats stint.MemoryStats, maxKeys int, callers bool) {
	s.gauge("stint_keys", "Keys of rules that the store holds.", float64(stats.Keys))
	s.gauge("stint_keys_max", "Most keys of rules that the store holds.", float64(maxKeys))
	s.counter("stint_evictions_total", "Keys of rules evicted before they expired, because the store was full.", stats.Evictions)
	s.counter("stint_unstored_total", "New keys decided as fresh and not stored, because the store was full of exhausted keys.", stats.Unstored)
	if !callers {
		return
	}
	s.requestIDs(&BudgetStats{int64(stats.Once.Bytes), stats.Once.Refused})
	c := &stats.Callers
	s.gauge("stint_caller_keys", "Keys of limits that callers bring.", float64(c.Keys))
	s.gauge("stint_caller_limits", "Limits that callers bring and that at least one key uses.", float64(c.Limits))
	s.counter("stint_caller_evictions_total", "Keys of limits that callers bring, evicted before they expired because their share was full.", c.Evictions)
	s.counter("stint_caller_refused_total", callersRefused, c.Refused)
}

func (s *scrape) requestIDs(b *BudgetStats) {
	s.gauge("stint_request_id_bytes", "Upper bound on the bytes that the store keeps for request ids of the last minute, of what this node wrote.", float64(b.Bytes))
	s.counter("stint_request_ids_refused_total", "Requests with an id, refused because the budget of request ids was used up.", b.Refused)
}

func (s *scrape) swaps(w *SwapStats) {
	swaps := s.family(prometheus.CounterValue, "stint_store_swaps_total", "Conditional writes to the store, by their outcome.", "outcome")
	swaps("done", float64(w.Done))
	swaps("early", float64(w.Early))
	swaps("lost", float64(w.Lost))
	swaps("unknown", float64(w.Unknown))
	s.counter("stint_store_locks_total", "Rounds of checks that locked an item, after they had lost it several times.", w.Locks)
	s.counter("stint_store_throttled_total", "Calls that the store refused because it gets too many.", w.Throttled)
}

func (s *scrape) shared(stats SharedStats) {
	s.gauge("stint_store_up", "1 while the store answers.", asFloat(stats.Up))
	s.counter("stint_noscript_total", "Calls that found their script missing in the store.", stats.NoScript)
	if stats.Nodes > 0 {
		s.gauge("stint_store_nodes", "Nodes that share the store.", float64(stats.Nodes))
	}
	if c := stats.Callers; c != nil {
		s.gauge("stint_caller_bytes", "Upper bound on the bytes in the store for limits that callers bring, of what this node wrote.", float64(c.Bytes))
		s.counter("stint_caller_refused_total", callersRefused, c.Refused)
	}
	if ids := stats.RequestIDs; ids != nil {
		s.requestIDs(ids)
	}
	if w := stats.Swaps; w != nil {
		s.swaps(w)
	}
	s.clocks(stats.Clocks)
	evictions := s.family(prometheus.CounterValue, "stint_store_evictions_total", "Items that the server of the store evicted to make room since it started.", "shard")
	for _, e := range stats.Evictions {
		evictions(e.Shard, float64(e.Items))
	}
	up := s.family(prometheus.GaugeValue, "stint_store_server_up", "1 while a server of a quorum answers.", "server")
	whole := s.family(prometheus.GaugeValue, "stint_store_server_whole", "1 while a server of a quorum has all counts.", "server")
	for _, m := range stats.Members {
		up(m.Server, asFloat(m.Up))
		whole(m.Server, asFloat(m.Whole))
	}
	s.breakers(stats.Breakers)
	if stats.Lease != nil {
		s.lease(stats.Lease)
	}
}

func (s *scrape) clocks(all []ClockStats) {
	skew := s.family(prometheus.GaugeValue, "stint_clock_skew_seconds", "How far the clock of a server of the store is ahead of this process's, when it was last measured.", "shard")
	measured := s.family(prometheus.GaugeValue, "stint_clock_skew_measured_timestamp_seconds", "When that clock was last measured, in Unix seconds.", "shard")
	for _, c := range all {
		skew(c.Shard, c.Skew.Seconds())
		measured(c.Shard, float64(c.Measured.UnixMilli())/1000)
	}
}

func (s *scrape) breakers(all []BreakerStats) {
	open := s.family(prometheus.GaugeValue, "stint_store_breaker_open", "1 while the circuit breaker of a server of the store is open.", "shard")
	opens := s.family(prometheus.CounterValue, "stint_store_breaker_opens_total", "How often that circuit breaker has opened.", "shard")
	refused := s.family(prometheus.CounterValue, "stint_store_breaker_refused_total", "Calls that the open circuit breaker refused.", "shard")
	degraded := prometheus.NewDesc("stint_degraded_decisions_total", "Claims decided without the store, by failure policy and the server that failed.", []string{"policy", "shard"}, nil)
	for _, b := range all {
		open(b.Shard, asFloat(b.Open))
		opens(b.Shard, float64(b.Opens))
		refused(b.Shard, float64(b.Refused))
		for policy, n := range map[stint.OnFailure]uint64{
			stint.FailOpen: b.Degraded.Open, stint.FailClosed: b.Degraded.Closed, stint.FailLocal: b.Degraded.Local, stint.FailLastKnown: b.Degraded.LastKnown,
		} {
			s.to <- prometheus.MustNewConstMetric(degraded, prometheus.CounterValue, float64(n), policy.String(), b.Shard)
		}
	}
}

func (s *scrape) lease(l *LeaseStats) {
	s.gauge("stint_lease_keys", "Hot keys that are leased.", float64(l.Keys))
	s.gauge("stint_lease_tokens_held", "Tokens charged and not yet spent: how much of the bound is in use.", float64(l.Held))
	s.counter("stint_lease_asked_total", "Leasable checks that asked the store.", l.Asked)
	s.counter("stint_lease_renewals_total", "Background calls to the store, each for many keys.", l.Renewed)
	local := s.family(prometheus.CounterValue, "stint_lease_local_total", "Checks decided without asking the store.", "decision")
	local("allow", float64(l.Local))
	local("deny", float64(l.Denied))
	tokens := s.family(prometheus.CounterValue, "stint_lease_tokens_total", "Tokens that leases were granted, returned, or left neither spent nor returned (stranded).", "kind")
	tokens("granted", float64(l.Granted))
	tokens("returned", float64(l.Returned))
	tokens("stranded", float64(l.Stranded))
}
