// Package metrics defines every metric family of the program, and counts into them.
//
// One [Metrics] belongs to one server. The surfaces report what they did in their own
// terms (a decision, an outcome, a call to the store), and this package translates that
// to names and labels. What already keeps counts of its own, such as a memory store or
// a limiter of the load, is read once per scrape instead of being counted twice.
//
// No label has a value that callers choose, so callers cannot make the number of series
// grow. Rule ids come from the rules in force, and the series of a rule end with it.
package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Surface is a way by which checks reach the server.
type Surface uint8

// The surfaces.
const (
	Check Surface = iota
	Take
	Auth
	Gateway
	RESP
	Envoy
	GRPC

	Surfaces
)

// String returns the value of the label surface.
func (s Surface) String() string {
	return [Surfaces]string{"check", "take", "auth", "gateway", "resp", "envoy", "grpc"}[s]
}

// Metrics are the metrics of one server. Make them with [New]. They are safe for
// concurrent use.
type Metrics struct {
	options  Options
	registry *prometheus.Registry
	checks   [Surfaces]prometheus.Observer
	requests requestCounters
	limits   limitVectors

	decisions *prometheus.CounterVec // labels: rule, decision
	// Decisions that no rule made.
	allowListed, denyListed, takeAllowed, takeDenied prometheus.Counter

	rules     rulesMetrics
	penalties *penalties
	emergency emergencyGauges
	canary    canaryMetrics
	live      liveRules

	envoyHits *prometheus.CounterVec // labels: rule, kind; nil without CountEnvoyHits

	failOpen func(rule string, n int) // see OnFailOpen
}

// Options configures [Metrics]. The zero value is ready for use.
type Options struct {
	// NearLimit is the share of a limit, 0 to 1: a request that leaves less of it counts as
	// near the limit. 0 counts none.
	NearLimit float64
	// NativeHistograms adds native buckets to every histogram.
	NativeHistograms bool
}

// New returns metrics without counts.
func New(o Options) *Metrics {
	m := &Metrics{
		options:  o,
		registry: prometheus.NewRegistry(),
		failOpen: func(string, int) {},
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_decisions_total",
			Help: "Decisions by rule; the rule is (take) where the caller brought the limit, and empty where a list decided."}, []string{"rule", "decision"}),
		rules:     newRulesMetrics(),
		penalties: newPenalties(),
		emergency: newEmergencyGauges(),
	}
	m.requests, m.limits = newRequestCounters(m.registry), newLimitVectors(m.registry)
	m.canary = newCanaryMetrics(m.registry)
	m.rules.register(m.registry)
	m.registry.MustRegister(m.decisions, m.newChecks(), m.emergency.on, m.emergency.end, newBuildInfo(),
		m.penalties.began, m.penalties.denied, collector(func(s *scrape) { m.penalties.collect(s, time.Now()) }),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.startAtZero()
	return m
}

func (m *Metrics) newChecks() prometheus.Collector {
	checks := newHistogram(prometheus.HistogramOpts{Name: "stint_check_duration_seconds",
		Help: "Time from a request read to its decision made, by surface.", Buckets: durations()}, m.options.NativeHistograms, "surface")
	for s := range Surfaces {
		m.checks[s] = checks.WithLabelValues(s.String())
	}
	return checks
}

// startAtZero creates the series that alerts use before their first event, so that a rate
// over them is 0 and not missing.
func (m *Metrics) startAtZero() {
	m.allowListed = m.decisions.WithLabelValues("", decisionAllowListed)
	m.denyListed = m.decisions.WithLabelValues("", decisionDenyListed)
	m.takeAllowed = m.decisions.WithLabelValues(takes, decisionAllow)
	m.takeDenied = m.decisions.WithLabelValues(takes, decisionDeny)
}

// Handler returns the handler of GET /metrics. A client that asks for OpenMetrics gets
// exemplars.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// Registry returns all metrics, for exporters.
func (m *Metrics) Registry() prometheus.Gatherer { return m.registry }

// ReadSpans shows how many spans were not delivered, and how many requests were not
// recorded because of a bound: on those that callers mark as sampled, and on those that the
// server samples itself.
func (m *Metrics) ReadSpans(unrecorded func() (marked, sampled uint64), undelivered func() uint64) {
	const help = "Requests that were to be traced and were not, because of the bound on requests that callers mark or on those that the server samples (caller, sampled), and spans that were not delivered (undelivered)."
	reason := func(reason string, value func() uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "stint_traces_dropped_total", Help: help, ConstLabels: prometheus.Labels{"reason": reason}},
			func() float64 { return float64(value()) })
	}
	m.registry.MustRegister(
		reason("caller", func() uint64 { marked, _ := unrecorded(); return marked }),
		reason("sampled", func() uint64 { _, sampled := unrecorded(); return sampled }),
		reason("undelivered", undelivered),
	)
}

// ObserveCheck records the duration of one check. trace is the id of its trace; empty
// without one.
func (m *Metrics) ObserveCheck(s Surface, took time.Duration, trace string) {
	observe(m.checks[s], took, trace)
}
