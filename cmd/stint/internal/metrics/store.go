package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint"
)

// SharedStats is the state of a store that nodes share.
type SharedStats struct {
	Up       bool   // the store answers
	NoScript uint64 // calls that found their script missing and loaded it
	// ClockSkew is how far the store's clock is ahead of this process's.
	ClockSkew time.Duration
	Nodes     int            // nodes that share the store, as far as known; 0 hides the metric
	Callers   *CallerStats   // nil if the store has no budget for caller-supplied limits
	Breakers  []BreakerStats // one per server of the store
	Lease     *LeaseStats    // nil if nothing is leased
}

// CallerStats is the use of a store by caller-supplied limits.
type CallerStats struct {
	Bytes   int64  // upper bound on the current use
	Refused uint64 // groups refused because of the budget
}

// BreakerStats is the state of the circuit breaker of one store server.
type BreakerStats struct {
	Shard string // name of the server; empty if the store has only one
	Open  bool   // the circuit is open
	Opens uint64 // number of times it has opened
}

// showStore adds what the store itself knows.
func (m *metrics) showStore(calls *StoreCalls, c *Config) {
	shared := c.Shared
	if shared == nil {
		shared = func() SharedStats { return SharedStats{Up: calls.up()} }
	}
	m.registry.MustRegister(calls.duration, calls.errors, sharedCollector(shared))
	if c.Stats != nil {
		m.showMemory(c.Stats, c.Shared == nil)
	}
}

// showMemory adds what a memory store holds; of callers only where no shared
// store tells of them.
func (m *metrics) showMemory(stats func() stint.MemoryStats, callers bool) {
	m.registry.MustRegister(memoryCollector{stats, callers})
}

// memoryCollector asks the store once a scrape.
type memoryCollector struct {
	stats   func() stint.MemoryStats
	callers bool
}

// Describe implements [prometheus.Collector]. It names nothing: such a
// collector is not checked beforehand.
func (memoryCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (m memoryCollector) Collect(to chan<- prometheus.Metric) {
	s := m.stats()
	all := []memoryMetric{
		{"stint_keys", "Keys of rules that the store holds.", prometheus.GaugeValue, float64(s.Keys)},
		{"stint_evictions_total", "Keys of rules given up before their time because the store was full.", prometheus.CounterValue, float64(s.Evictions)},
		{"stint_unstored_total", "Newcomers decided as fresh and not stored, because the store was full of exhausted keys.", prometheus.CounterValue, float64(s.Unstored)},
	}
	if m.callers {
		all = append(all, callerMetrics(&s.Callers)...)
	}
	for _, one := range all {
		to <- prometheus.MustNewConstMetric(prometheus.NewDesc(one.name, one.help, nil, nil), one.kind, one.value)
	}
}

type memoryMetric struct {
	name, help string
	kind       prometheus.ValueType
	value      float64
}

func callerMetrics(s *stint.CallerStats) []memoryMetric {
	return []memoryMetric{
		{"stint_caller_keys", "Keys of limits that callers bring.", prometheus.GaugeValue, float64(s.Keys)},
		{"stint_caller_limits", "Limits that callers brought and that a key is of.", prometheus.GaugeValue, float64(s.Limits)},
		{"stint_caller_evictions_total", "Keys of limits that callers bring, given up before their time because their share was full.", prometheus.CounterValue, float64(s.Evictions)},
		{"stint_caller_refused_total", "Newcomers of limits that callers bring, refused because their share was full of exhausted keys.", prometheus.CounterValue, float64(s.Refused)},
	}
}

// sharedCollector asks the store once a scrape. The servers of a store come
// and go, so their series are made of those that there are.
type sharedCollector func() SharedStats

func sharedMetric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe implements [prometheus.Collector]. It names nothing: such a
// collector is not checked beforehand.
func (sharedCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (s sharedCollector) Collect(to chan<- prometheus.Metric) {
	stats := s()
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	to <- prometheus.MustNewConstMetric(sharedMetric("stint_store_up", "1 while the store answers."), gauge, asFloat(stats.Up))
	to <- prometheus.MustNewConstMetric(sharedMetric("stint_noscript_total",
		"Calls that found their script missing in the store."), counter, float64(stats.NoScript))
	to <- prometheus.MustNewConstMetric(sharedMetric("stint_clock_skew_seconds",
		"How far the store's clock is ahead of this process's."), gauge, stats.ClockSkew.Seconds())
	if stats.Nodes > 0 {
		to <- prometheus.MustNewConstMetric(sharedMetric("stint_store_nodes", "Nodes that share the store."), gauge, float64(stats.Nodes))
	}
	if c := stats.Callers; c != nil {
		to <- prometheus.MustNewConstMetric(sharedMetric("stint_caller_bytes",
			"Bytes that the states of callers' own limits take in the store, at most, of what this node wrote."), gauge, float64(c.Bytes))
		to <- prometheus.MustNewConstMetric(sharedMetric("stint_caller_refused_total",
			"Checks of callers' own limits that were refused because their budget in the store is used up."), counter, float64(c.Refused))
	}
	open := sharedMetric("stint_store_breaker_open", "1 while a server of the store is not asked because it fails.", "shard")
	opens := sharedMetric("stint_store_breaker_opens_total", "How often that began.", "shard")
	for _, b := range stats.Breakers {
		to <- prometheus.MustNewConstMetric(open, gauge, asFloat(b.Open), b.Shard)
		to <- prometheus.MustNewConstMetric(opens, counter, float64(b.Opens), b.Shard)
	}
	if stats.Lease != nil {
		collectLeases(stats.Lease, to)
	}
}

func asFloat(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
