package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Values of the label result of stint_rules_reloads_total.
const (
	resultOK    = "ok"
	resultError = "error"
)

// rulesMetrics show the version of the rules and the state of their source.
type rulesMetrics struct {
	version      prometheus.Gauge
	reloads      *prometheus.CounterVec // label: result
	sourceUp     prometheus.Gauge
	pollFailures prometheus.Counter
	success      prometheus.Gauge

	mu       *sync.Mutex
	rejected bool // guarded by mu: the newest version is not in force
}

func newRulesMetrics() rulesMetrics {
	return rulesMetrics{
		version: prometheus.NewGauge(prometheus.GaugeOpts{Name: "stint_rules_version",
			Help: "Version of the rule set in force, as its source numbers it; 0: the built-in rules."}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_rules_reloads_total",
			Help: "Attempts to load changed rules, by result."}, []string{"result"}),
		sourceUp: prometheus.NewGauge(prometheus.GaugeOpts{Name: "stint_rules_source_up",
			Help: "1 while the source of the rules answers; 0 after three failed polls in a row, or one of a file."}),
		pollFailures: prometheus.NewCounter(prometheus.CounterOpts{Name: "stint_rules_poll_failures_total",
			Help: "Failed polls of the source of the rules."}),
		success: prometheus.NewGauge(prometheus.GaugeOpts{Name: "stint_rules_last_success_timestamp_seconds",
			Help: "When the source of the rules was last read with success and its newest version was in force, in Unix seconds."}),
		mu: new(sync.Mutex),
	}
}

func (r *rulesMetrics) register(to prometheus.Registerer) {
	to.MustRegister(r.version, r.reloads, r.sourceUp, r.pollFailures, r.success)
	r.reloads.WithLabelValues(resultOK)
	r.reloads.WithLabelValues(resultError)
}

// RulesInForce shows the version of the rule set that has just come into force.
func (m *Metrics) RulesInForce(version uint64) {
	m.rules.version.Set(float64(version))
	m.rules.accepted(true)
}

// RulesReloaded counts an attempt to load changed rules.
func (m *Metrics) RulesReloaded(ok bool) {
	result := resultOK
	if !ok {
		result = resultError
	}
	m.rules.reloads.WithLabelValues(result).Inc()
}

// RulesRejected counts a version of the rules that has a mistake.
func (m *Metrics) RulesRejected() {
	m.RulesReloaded(false)
	m.rules.accepted(false)
}

// accepted records whether the newest version of the rules is in force.
func (r *rulesMetrics) accepted(ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rejected = !ok; ok {
		r.success.SetToCurrentTime()
	}
}

// RulesPolled counts a poll of the source of the rules that ended with err, and shows
// whether the source counts as up.
func (m *Metrics) RulesPolled(err error, up bool) {
	r := &m.rules
	r.sourceUp.Set(asFloat(up))
	if err != nil {
		r.pollFailures.Inc()
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.rejected {
		r.success.SetToCurrentTime()
	}
}

// ReadStale shows whether the rules in force are a local copy that the source has not
// confirmed.
func (m *Metrics) ReadStale(stale func() bool) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "stint_rules_stale",
		Help: "1 while the rules in force are the local copy of an earlier run, and the source has not confirmed them."},
		func() float64 { return asFloat(stale()) }))
}
