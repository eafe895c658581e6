package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// surface is a way by which checks come in.
type surface uint8

const (
	surfaceCheck surface = iota
	surfaceTake
	surfaceAuth
	surfaceGateway
	surfaceRESP
	surfaceEnvoy
	surfaceGRPC
	surfaceCount
)

func (s surface) String() string {
	return [surfaceCount]string{"check", "take", "auth", "gateway", "resp", "envoy", "grpc"}[s]
}

// durations are the buckets of both histograms, in seconds: a check in memory
// takes a microsecond, one against a store far away a tenth of a second.
func durations() []float64 {
	return []float64{
		250e-9, 500e-9, 1e-6, 2.5e-6, 5e-6, 10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6,
		1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 1,
	}
}

// metrics are what /metrics shows. No label has a value that callers choose.
type metrics struct {
	registry  *prometheus.Registry
	decisions *prometheus.CounterVec // by rule, decision
	checks    [surfaceCount]prometheus.Observer
	version   prometheus.Gauge
	reloads   *prometheus.CounterVec // by result

	refused prometheus.Counter // for want of a token, by the http listener

	sourceUp     prometheus.Gauge
	pollFailures prometheus.Counter

	// Decisions that no rule made.
	unmatched, allowListed, denyListed, takeAllowed, takeDenied prometheus.Counter
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_decisions_total",
			Help: "Decisions by rule; the rule is empty where the caller brought the limit, a list decided or no rule matched."}, []string{"rule", "decision"}),
		version: prometheus.NewGauge(prometheus.GaugeOpts{Name: "stint_rules_version",
			Help: "Version of the rule set in force, as its source numbers it; 0: the built-in rules."}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_rules_reloads_total",
			Help: "Attempts to load changed rules, by result."}, []string{"result"}),
		refused: prometheus.NewCounter(tokensRefused("http")),
		sourceUp: prometheus.NewGauge(prometheus.GaugeOpts{Name: "stint_rules_source_up",
			Help: "1 while the source of the rules answers; 0 when three looks at it in a row have failed, one where it is a file."}),
		pollFailures: prometheus.NewCounter(prometheus.CounterOpts{Name: "stint_rules_poll_failures_total",
			Help: "Looks at the source of the rules that failed."}),
	}
	m.registry.MustRegister(m.decisions, m.version, m.reloads, m.refused, m.sourceUp, m.pollFailures, m.newChecks(),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.startAtZero()
	return m
}

// watchStale shows whether the rules in force are a local copy that the source has
// not confirmed.
func (m *metrics) watchStale(stale func() bool) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "stint_rules_stale",
		Help: "1 while the rules in force are the local copy of an earlier run, and the source has not confirmed them."}, func() float64 {
		if stale() {
			return 1
		}
		return 0
	}))
}

// tokensRefused is the count of the requests to a listener that brought no token
// where one is asked for, or a wrong one.
func tokensRefused(listener string) prometheus.CounterOpts {
	return prometheus.CounterOpts{Name: "stint_tokens_refused_total", ConstLabels: prometheus.Labels{"listener": listener},
		Help: "Requests without a token where one is asked for, or with a wrong one."}
}

func (m *metrics) newChecks() prometheus.Collector {
	checks := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "stint_check_duration_seconds",
		Help: "Time from a request read to its decision made, by surface.", Buckets: durations()}, []string{"surface"})
	for s := range surfaceCount {
		m.checks[s] = checks.WithLabelValues(s.String())
	}
	return checks
}

// startAtZero makes the series that alerts ask for exist before the first
// event, so that a rate over it is 0 and not nothing.
func (m *metrics) startAtZero() {
	m.unmatched = m.decisions.WithLabelValues("", decisionAllow)
	m.allowListed = m.decisions.WithLabelValues("", decisionAllowListed)
	m.denyListed = m.decisions.WithLabelValues("", decisionDenyListed)
	m.takeAllowed = m.unmatched
	m.takeDenied = m.decisions.WithLabelValues("", decisionDeny)
	m.reloads.WithLabelValues("ok")
	m.reloads.WithLabelValues("error")
}

func (m *metrics) observeCheck(s surface, started time.Time) {
	m.checks[s].Observe(time.Since(started).Seconds())
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
