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

	surfaces
)

// String returns the value of the label surface.
func (s Surface) String() string {
	return [surfaces]string{"check", "take", "auth", "gateway", "resp", "envoy", "grpc"}[s]
}

// durations returns the buckets of both histograms, in seconds: a check in memory takes a
// microsecond, one against a distant store a tenth of a second.
func durations() []float64 {
	return []float64{
		250e-9, 500e-9, 1e-6, 2.5e-6, 5e-6, 10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6,
		1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 1,
	}
}

// Metrics are the metrics of one server. Make them with [New]. They are safe for
// concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	checks   [surfaces]prometheus.Observer

	decisions *prometheus.CounterVec // labels: rule, decision
	// Decisions that no rule made.
	unmatched, allowListed, denyListed, takeAllowed, takeDenied prometheus.Counter

	version      prometheus.Gauge
	reloads      *prometheus.CounterVec // label: result
	sourceUp     prometheus.Gauge
	pollFailures prometheus.Counter

	tokensRefused prometheus.Counter // requests that the http listener refused

	penalties *prometheus.CounterVec // labels: rule, penalty
	punished  *prometheus.CounterVec // label: rule

	emergency emergencyGauges

	failOpen func(rule string, n int) // see OnFailOpen
}

// New returns metrics without counts.
func New() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		failOpen: func(string, int) {},
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_decisions_total",
			Help: "Decisions by rule; the rule is empty where the caller brought the limit, a list decided or no rule matched."}, []string{"rule", "decision"}),
		version: prometheus.NewGauge(prometheus.GaugeOpts{Name: "stint_rules_version",
			Help: "Version of the rule set in force, as its source numbers it; 0: the built-in rules."}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_rules_reloads_total",
			Help: "Attempts to load changed rules, by result."}, []string{"result"}),
		sourceUp: prometheus.NewGauge(prometheus.GaugeOpts{Name: "stint_rules_source_up",
			Help: "1 while the source of the rules answers; 0 after three failed polls in a row, or one of a file."}),
		pollFailures: prometheus.NewCounter(prometheus.CounterOpts{Name: "stint_rules_poll_failures_total",
			Help: "Failed polls of the source of the rules."}),
		tokensRefused: prometheus.NewCounter(tokensRefused("http")),
		penalties: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_penalties_total",
			Help: "Penalties that this node has begun, by rule and kind."}, []string{"rule", "penalty"}),
		punished: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_penalty_denials_total",
			Help: "Requests denied because their caller was being punished, by rule."}, []string{"rule"}),
		emergency: newEmergencyGauges(),
	}
	m.registry.MustRegister(m.decisions, m.version, m.reloads, m.sourceUp, m.pollFailures, m.tokensRefused, m.penalties, m.punished, m.newChecks(), m.emergency.on, m.emergency.end,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.startAtZero()
	return m
}

func (m *Metrics) newChecks() prometheus.Collector {
	checks := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "stint_check_duration_seconds",
		Help: "Time from a request read to its decision made, by surface.", Buckets: durations()}, []string{"surface"})
	for s := range surfaces {
		m.checks[s] = checks.WithLabelValues(s.String())
	}
	return checks
}

// startAtZero creates the series that alerts use before their first event, so that a rate
// over them is 0 and not missing.
func (m *Metrics) startAtZero() {
	m.unmatched = m.decisions.WithLabelValues("", decisionAllow)
	m.allowListed = m.decisions.WithLabelValues("", decisionAllowListed)
	m.denyListed = m.decisions.WithLabelValues("", decisionDenyListed)
	m.takeAllowed = m.unmatched
	m.takeDenied = m.decisions.WithLabelValues("", decisionDeny)
	m.reloads.WithLabelValues(resultOK)
	m.reloads.WithLabelValues(resultError)
}

// Handler returns the handler of GET /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// ObserveCheck records the duration of one check.
func (m *Metrics) ObserveCheck(s Surface, took time.Duration) {
	m.checks[s].Observe(took.Seconds())
}

// tokensRefused describes the counter of one listener's requests without a valid token.
func tokensRefused(listener string) prometheus.CounterOpts {
	return prometheus.CounterOpts{Name: "stint_tokens_refused_total", ConstLabels: prometheus.Labels{"listener": listener},
		Help: "Requests that lack the required token, or have a wrong one."}
}

// TokenRefused counts a request to the http listener without a valid token.
func (m *Metrics) TokenRefused() { m.tokensRefused.Inc() }

// ReadAdminTokens shows the number of requests to the admin listener without a valid
// token.
func (m *Metrics) ReadAdminTokens(refused func() uint64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(tokensRefused("admin"), func() float64 { return float64(refused()) }))
}

// ReadTokenKeys shows when the keys that verify tokens were last fetched, as Unix seconds.
func (m *Metrics) ReadTokenKeys(fetched func() int64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "stint_jwt_keys_last_success_timestamp_seconds",
		Help: "Unix time of the last successful fetch of the URL of --jwt-keys; 0 before the first. The last keys stay in force while the URL fails."},
		func() float64 { return float64(fetched()) }))
}

// ReadHotKeys shows the number of hot keys.
func (m *Metrics) ReadHotKeys(hot func() int64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "stint_hot_keys",
		Help: "Keys that had at least --hot-key-rate requests in the last second, on this node."}, func() float64 { return float64(hot()) }))
}

// PenaltyBegan counts a penalty under a rule.
func (m *Metrics) PenaltyBegan(rule, kind string) { m.penalties.WithLabelValues(rule, kind).Inc() }

// PenaltyDenied counts a request denied because its caller is being punished.
func (m *Metrics) PenaltyDenied(rule string) { m.punished.WithLabelValues(rule).Inc() }
