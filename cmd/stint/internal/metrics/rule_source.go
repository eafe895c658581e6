package metrics

import (
	"strconv"

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
	hash         prometheus.Gauge
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
			Help: "When the source of the rules was last read with success and its newest version was in force, in Unix seconds; 0: never."}),
		hash: prometheus.NewGauge(prometheus.GaugeOpts{Name: "stint_rules_hash",
			Help: "Number made of the names and the content of the rule files in force: nodes with the same files have the same."}),
	}
}

func (r *rulesMetrics) register(to prometheus.Registerer) {
	to.MustRegister(r.version, r.reloads, r.sourceUp, r.pollFailures, r.success, r.hash)
	r.reloads.WithLabelValues(resultOK)
	r.reloads.WithLabelValues(resultError)
}

// hashBits is how much of a hash of rules is shown. The number of a sample has 53 bits.
const hashBits = 48

// RulesInForce shows the version of the rule set that has just come into force, and the
// hexadecimal hash of its files.
func (m *Metrics) RulesInForce(version uint64, hash string) {
	m.rules.version.Set(float64(version))
	shown, _ := strconv.ParseUint(hash[:min(len(hash), hashBits/4)], 16, 64) // hexadecimal
	m.rules.hash.Set(float64(shown))
}

// RulesCurrent records that the source was read with success, and that its newest version
// is in force.
func (m *Metrics) RulesCurrent() { m.rules.success.SetToCurrentTime() }

// RulesReloaded counts an attempt to load changed rules.
func (m *Metrics) RulesReloaded(ok bool) {
	result := resultOK
	if !ok {
		result = resultError
	}
	m.rules.reloads.WithLabelValues(result).Inc()
}

// RulesPolled counts a poll of the source of the rules that ended with err, and shows
// whether the source counts as up.
func (m *Metrics) RulesPolled(err error, up bool) {
	m.rules.sourceUp.Set(asFloat(up))
	if err != nil {
		m.rules.pollFailures.Inc()
	}
}

// ReadStale shows whether the rules in force are a local copy that the source has not
// confirmed.
func (m *Metrics) ReadStale(stale func() bool) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "stint_rules_stale",
		Help: "1 while the rules in force are the local copy of an earlier run, and the source has not confirmed them."},
		func() float64 { return asFloat(stale()) }))
}
