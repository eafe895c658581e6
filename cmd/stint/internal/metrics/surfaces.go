package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/decide"
	"github.com/stintdev/stint/cmd/stint/internal/envoyrls"
	"github.com/stintdev/stint/resilience/adaptive"
)

// ObserveDecisions records one call to the store: the durations of its checks and takes,
// each of which took the time of all, and the decisions on limits that callers sent.
func (m *Metrics) ObserveDecisions(check, take Surface, r *decide.Report) {
	seconds := r.Took.Seconds()
	for range r.Checks {
		m.checks[check].Observe(seconds)
	}
	for range r.Takes {
		m.checks[take].Observe(seconds)
	}
	if r.Allowed > 0 {
		m.takeAllowed.Add(float64(r.Allowed))
	}
	if r.Denied > 0 {
		m.takeDenied.Add(float64(r.Denied))
	}
	for policy, n := range r.Degraded {
		if n > 0 {
			m.decisions.WithLabelValues("", failureDecision(stint.OnFailure(policy))).Add(float64(n))
		}
	}
}

// EnvoyLimit returns the counters of a limit in Envoy's files. Its label rule is its name
// there, such as domain.key_value.
func (m *Metrics) EnvoyLimit(name string) envoyrls.Counters {
	counters := m.Rule(name)
	return envoyrls.Counters{
		Allow: counters.allow, Deny: counters.deny, ShadowDeny: counters.shadowDeny,
		Failed: m.decisions.WithLabelValues(name, decisionErrorClosed),
	}
}

// EnvoyFiles shows how many of Envoy's files have a mistake. It returns the function to
// call with that number: first at the start, then after each change, which counts as a
// reload.
func (m *Metrics) EnvoyFiles() func(mistaken int) {
	mistakes := prometheus.NewGauge(prometheus.GaugeOpts{Name: "stint_envoy_config_mistakes",
		Help: "Files of --envoy-config with a mistake: the last good version of each is served, if there is one."})
	m.registry.MustRegister(mistakes)
	started := false
	return func(mistaken int) {
		mistakes.Set(float64(mistaken))
		if started {
			m.RulesReloaded(mistaken == 0)
		}
		started = true
	}
}

// ReadGate shows the requests in flight through the gateway and their limit.
func (m *Metrics) ReadGate(gate *adaptive.Concurrency) {
	gauge := func(name, help string, value func(adaptive.Usage) int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value(gate.Usage())) })
	}
	m.registry.MustRegister(
		gauge("stint_gateway_limit", "How many requests may be in flight through the gateway now.", func(u adaptive.Usage) int { return u.Limit }),
		gauge("stint_gateway_in_flight", "Requests in flight through the gateway, except streams that have begun.", func(u adaptive.Usage) int { return u.InFlight }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "stint_gateway_shed_total",
			Help: "Requests that the gateway answered with 503 because the limit was reached."}, func() float64 { return float64(gate.Usage().Shed) }),
	)
}

// ClosedConnections shows the number of connections that the gateway has ended because of
// denials. It returns the function that counts one.
func (m *Metrics) ClosedConnections() (closed func()) {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "stint_gateway_connections_closed_total",
		Help: "Connections to the gateway that were ended because all their requests were denied."})
	m.registry.MustRegister(c)
	return c.Inc
}
