package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/emergency"
)

// emergencyGauges show the emergency that a node obeys.
type emergencyGauges struct{ on, end prometheus.Gauge }

func newEmergencyGauges() emergencyGauges {
	return emergencyGauges{
		on: prometheus.NewGauge(prometheus.GaugeOpts{Name: "stint_emergency",
			Help: "1 while this node obeys an emergency."}),
		end: prometheus.NewGauge(prometheus.GaugeOpts{Name: "stint_emergency_end_timestamp_seconds",
			Help: "When the emergency that this node obeys ends, in Unix seconds; 0: there is none."}),
	}
}

// EmergencyOn shows an emergency that ends at the given time.
func (m *Metrics) EmergencyOn(end time.Time) {
	m.emergency.on.Set(1)
	m.emergency.end.Set(float64(end.UnixMilli()) / 1000)
}

// EmergencyOff shows that there is no emergency.
func (m *Metrics) EmergencyOff() {
	m.emergency.on.Set(0)
	m.emergency.end.Set(0)
}

// EmergencyDecided counts a decision on a request that is not a check: those count with the
// rules.
func (m *Metrics) EmergencyDecided(d *stint.Decision) {
	decision := decisionAllow
	switch {
	case d.Degraded:
		decision = decisionErrorLocal
	case !d.Allowed:
		decision = decisionDeny
	}
	m.decisions.WithLabelValues(emergency.Rule, decision).Inc()
}
