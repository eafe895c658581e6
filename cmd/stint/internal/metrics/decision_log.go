package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint/cmd/stint/internal/decisionlog"
)

// ReadDecisionLog shows what the decision log has written and dropped.
func (m *Metrics) ReadDecisionLog(l *decisionlog.Log) {
	dropped := prometheus.NewDesc("stint_decision_log_dropped_total",
		"Lines that the decision log lacks, by rule and reason: rate, queue and write of denied and degraded decisions, sample of allowed ones.", []string{"rule", "reason"}, nil)
	m.registry.MustRegister(collector(func(s *scrape) {
		allowed, denied := l.Written()
		written := s.family(prometheus.CounterValue, "stint_decision_log_lines_total",
			"Lines of the decision log: those of the sample of allowed decisions, and those of denied and degraded decisions.", "decision")
		written("allowed", float64(allowed))
		written("denied", float64(denied))
		for _, d := range l.Dropped() {
			s.to <- prometheus.MustNewConstMetric(dropped, prometheus.CounterValue, float64(d.Count), d.Rule, d.Reason)
		}
	}))
}
