package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
)

// canaryMetrics show the canary that a node runs.
type canaryMetrics struct {
	share prometheus.Gauge
	ends  *prometheus.CounterVec
}

func newCanaryMetrics(r prometheus.Registerer) canaryMetrics {
	c := canaryMetrics{
		share: prometheus.NewGauge(prometheus.GaugeOpts{Name: "stint_canary_share",
			Help: "Share of the callers that get the new rules of a canary; 0: there is none."}),
		ends: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_canary_ends_total",
			Help: "Canaries that this node has ended, by result (promoted, aborted) and reason (operator, soak, denied, errors)."}, []string{"result", "reason"}),
	}
	r.MustRegister(c.share, c.ends)
	for _, why := range []ruleset.CanaryReason{ruleset.CanaryOperator, ruleset.CanarySoaked} {
		c.ends.WithLabelValues(canaryResult(true), string(why))
	}
	for _, why := range []ruleset.CanaryReason{ruleset.CanaryOperator, ruleset.CanaryDenied, ruleset.CanaryErrors} {
		c.ends.WithLabelValues(canaryResult(false), string(why))
	}
	return c
}

// CanaryInForce shows the share of the callers in a canary, 0 without one.
func (m *Metrics) CanaryInForce(share float64) { m.canary.share.Set(share) }

// CanaryEnded counts a canary that this node has ended.
func (m *Metrics) CanaryEnded(promoted bool, why ruleset.CanaryReason) {
	m.canary.ends.WithLabelValues(canaryResult(promoted), string(why)).Inc()
}

func canaryResult(promoted bool) string {
	if promoted {
		return "promoted"
	}
	return "aborted"
}

// ReadCanary shows what this node has counted of the canary that it runs.
func (m *Metrics) ReadCanary(counts func() *ruleset.CanaryCounts) {
	desc := prometheus.NewDesc("stint_canary_requests",
		"Requests since this node runs the canary in force, at most 10 a second of a caller, by side (control, canary) and result (allowed, denied, error).", []string{"side", "result"}, nil)
	m.registry.MustRegister(collector(func(s *scrape) {
		c := counts()
		if c == nil {
			return
		}
		for side, n := range map[string]ruleset.Counts{"control": c.Control, "canary": c.Canary} {
			for result, n := range map[string]uint64{"allowed": n.Requests - n.Denied - n.Errors, "denied": n.Denied, "error": n.Errors} {
				s.to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), side, result)
			}
		}
	}))
}
