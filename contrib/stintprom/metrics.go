package stintprom

import (
	"context"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/nameset"
	"github.com/stintdev/stint/storekit"
)

// Metrics is a [prometheus.Collector] and a [stint.Observer]. Make one with [New]; the
// zero value is ready to use. It is safe for concurrent use.
type Metrics struct {
	decisions         *prometheus.CounterVec   // labels: limiter, op, result
	denials           *prometheus.CounterVec   // labels: limiter, limit
	decisionDurations *prometheus.HistogramVec // labels: limiter, op

	storeCalls     *prometheus.CounterVec   // labels: store, shard, result
	storeDurations *prometheus.HistogramVec // label: store
	storeClaims    *prometheus.CounterVec   // label: store
	breakerChanges *prometheus.CounterVec   // labels: store, shard, to

	requests         *prometheus.CounterVec   // labels: dependency, result
	requestDurations *prometheus.HistogramVec // label: dependency
	attempts         *prometheus.CounterVec   // labels: dependency, result
	refused          *prometheus.CounterVec   // labels: dependency, part
	retries          *prometheus.CounterVec   // labels: dependency, decision

	once sync.Once // makes the vectors

	names, results nameset.Set[string]
	pairs          nameset.Set[[2]string] // of a limiter and a limit, or a store and a shard

	mu      sync.Mutex
	watched map[source]func() []storekit.Metric // guarded by mu
}

// New returns metrics without values.
func New() *Metrics { return &Metrics{} }

func (m *Metrics) start() {
	m.decisions = counter("limiter_decisions_total", "Calls of limiters by what they were asked for and how they ended.", "limiter", "op", "result")
	m.denials = counter("limiter_denials_total", "Denials by the limit that denied for longest.", "limiter", "limit")
	m.decisionDurations = histogram("limiter_duration_seconds", "Time of a call of a limiter; of a wait, the whole wait.", 1e-6, "limiter", "op")

	m.storeCalls = counter("store_calls_total", "Calls to stores, or round trips to their servers, by how they ended.", "store", "shard", "result")
	m.storeDurations = histogram("store_call_duration_seconds", "Time of a call to a store.", 1e-6, "store")
	m.storeClaims = counter("store_claims_total", "Claims that the calls to stores carried.", "store")
	m.breakerChanges = counter("store_breaker_changes_total", "Changes of state of the circuit breakers of stores, by the new state.", "store", "shard", "to")

	m.requests = counter("client_calls_total", "Calls by how they ended, their attempts taken together.", "dependency", "result")
	m.requestDurations = histogram("client_call_duration_seconds", "Time from a call's beginning to its answer, waits and retries included.", 1e-3, "dependency")
	m.attempts = counter("client_attempts_total", "Attempts that were sent, by how they ended.", "dependency", "result")
	m.refused = counter("client_refused_total", "Attempts that were not sent, by the part that refused.", "dependency", "part")
	m.retries = counter("client_retries_total", "What followed from attempts that failed: a retry, or why not.", "dependency", "decision")
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_" + name, Help: help}, labels)
}

// histogram returns a histogram of 16 buckets. The first ends at the given number of
// seconds. Each bound is twice the one before, or four times if the first is below a
// millisecond.
func histogram(name, help string, first float64, labels ...string) *prometheus.HistogramVec {
	factor := 2.0
	if first < 1e-3 {
		factor = 4
	}
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "stint_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(first, factor, 16)}, labels)
}

// Start implements [stint.Observer]. It does nothing: the event has its duration.
func (m *Metrics) Start(ctx context.Context, _ stint.Event) context.Context { return ctx }

// Observe counts an event.
func (m *Metrics) Observe(_ context.Context, e stint.Event) {
	m.once.Do(m.start)
	name, result := bounded(&m.names, e.Name), bounded(&m.results, e.Result)
	switch e.Kind {
	case stint.EventDecision:
		m.observeDecision(name, result, &e)
	case stint.EventStoreCall:
		store, shard := m.pair(e.Name, e.Shard)
		m.storeCalls.WithLabelValues(store, shard, result).Inc()
		m.storeDurations.WithLabelValues(name).Observe(e.Took.Seconds())
		m.storeClaims.WithLabelValues(name).Add(float64(e.Claims))
	case stint.EventBreaker:
		store, shard := m.pair(e.Name, e.Shard)
		m.breakerChanges.WithLabelValues(store, shard, result).Inc()
	case stint.EventRequest:
		m.requests.WithLabelValues(name, result).Inc()
		m.requestDurations.WithLabelValues(name).Observe(e.Took.Seconds())
	case stint.EventAttempt:
		m.attempts.WithLabelValues(name, result).Inc()
	case stint.EventRefusal:
		m.refused.WithLabelValues(name, result).Inc()
	case stint.EventRetry:
		m.retries.WithLabelValues(name, result).Inc()
	}
}

func (m *Metrics) observeDecision(name, result string, e *stint.Event) {
	op := bounded(&m.results, e.Op)
	m.decisions.WithLabelValues(name, op, result).Inc()
	m.decisionDurations.WithLabelValues(name, op).Observe(e.Took.Seconds())
	if e.Err != nil || e.Decision.Allowed {
		return
	}
	limit := "" // of a wait for several limits
	if e.Limit.Valid() && !e.Limit.FromCaller() {
		limit = e.Limit.Name()
	}
	limiter, limit := m.pair(e.Name, limit)
	m.denials.WithLabelValues(limiter, limit).Inc()
}

// pair returns two names that occur together as label values.
func (m *Metrics) pair(a, b string) (string, string) {
	a, b = valid(a), valid(b)
	if !m.pairs.Accepts([2]string{a, b}) {
		return nameset.Other, nameset.Other
	}
	return a, b
}

// bounded returns a name as a label value.
func bounded(names *nameset.Set[string], name string) string {
	if name = valid(name); names.Accepts(name) {
		return name
	}
	return nameset.Other
}

// valid returns a name as a valid label value: Prometheus accepts only UTF-8.
func valid(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

func (m *Metrics) vectors() []prometheus.Collector {
	m.once.Do(m.start)
	return []prometheus.Collector{
		m.decisions, m.denials, m.decisionDurations,
		m.storeCalls, m.storeDurations, m.storeClaims, m.breakerChanges,
		m.requests, m.requestDurations, m.attempts, m.refused, m.retries,
	}
}

// Describe implements [prometheus.Collector]. It describes the metrics of what is watched
// already; a registry accepts those that follow too.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, v := range m.vectors() {
		v.Describe(to)
	}
	for _, f := range m.families() {
		to <- f.desc
	}
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, v := range m.vectors() {
		v.Collect(to)
	}
	for _, f := range m.families() {
		f.collect(to)
	}
}
