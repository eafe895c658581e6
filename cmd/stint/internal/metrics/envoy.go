package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint/cmd/stint/internal/envoyrls"
)

// envoyCounters are the counters of a limit of Envoy's files: the label rule
// is its name there, such as domain.key_value.
func (m *metrics) envoyCounters(limit string) envoyrls.Counters {
	counters := m.countersOf(limit)
	return envoyrls.Counters{
		Allow: counters.allow, Deny: counters.deny, ShadowDeny: counters.shadowDeny,
		Failed: m.decisions.WithLabelValues(limit, decisionErrorClosed),
	}
}

// showEnvoyFiles shows how many of Envoy's files have a mistake, and returns
// what is told of it: first of the start, then of each time they changed.
func (m *metrics) showEnvoyFiles() func(mistaken int) {
	mistakes := prometheus.NewGauge(prometheus.GaugeOpts{Name: "stint_envoy_config_mistakes",
		Help: "Files of --envoy-config that are not served as they stand: the last good version of each is, if there is one."})
	m.registry.MustRegister(mistakes)
	started := false
	return func(mistaken int) {
		mistakes.Set(float64(mistaken))
		if started {
			m.reloads.WithLabelValues(reloadResult(mistaken)).Inc()
		}
		started = true
	}
}

func reloadResult(mistaken int) string {
	if mistaken > 0 {
		return "error"
	}
	return "ok"
}
