package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/decide"
	"github.com/stintdev/stint/cmd/stint/internal/emergency"
	"github.com/stintdev/stint/cmd/stint/internal/envoyrls"
)

// ObserveDecisions records one call to the store: the durations of its checks and takes,
// each of which took the time of all, and the decisions on limits that callers sent.
func (m *Metrics) ObserveDecisions(check, take Surface, r *decide.Report) {
	trace := r.Span.TraceID() // one exemplar is enough
	for range r.Checks {
		observe(m.checks[check], r.Took, trace)
		trace = ""
	}
	for range r.Takes {
		observe(m.checks[take], r.Took, trace)
		trace = ""
	}
	for e := range decide.Endings {
		m.RequestEnded(check, e, r.EndedChecks[e])
		m.RequestEnded(take, e, r.Ended[e])
	}
	if r.Allowed > 0 {
		m.takeAllowed.Add(float64(r.Allowed))
	}
	if r.Denied > 0 {
		m.takeDenied.Add(float64(r.Denied))
	}
	if e := &r.Emergency; e.Allowed+e.Denied+e.Local > 0 {
		m.decisions.WithLabelValues(emergency.Rule, decisionAllow).Add(float64(e.Allowed))
		m.decisions.WithLabelValues(emergency.Rule, decisionDeny).Add(float64(e.Denied))
		m.decisions.WithLabelValues(emergency.Rule, decisionErrorLocal).Add(float64(e.Local))
	}
	for policy, n := range r.Degraded {
		if n > 0 {
			m.decisions.WithLabelValues(takes, failureDecision(stint.OnFailure(policy))).Add(float64(n))
		}
	}
	if n := r.Degraded[stint.FailOpen]; n > 0 {
		m.failOpen("", n)
	}
}

// EnvoyLimit returns the counters of a limit in Envoy's files. Its label rule is its name
// there, such as domain.key_value.
func (m *Metrics) EnvoyLimit(name string, onFailure stint.OnFailure) envoyrls.Counters {
	counters := m.Rule(name, onFailure)
	return envoyrls.Counters{
		Allow: counters.allow, Deny: counters.deny, ShadowDeny: counters.shadowDeny,
		Failed: counters.failed, FailedOpen: failedOpen{m, name},
		Hits: m.envoyHitsOf(name),
	}
}

// CountEnvoyHits makes the counters that Envoy's own service has. It must be called before
// Envoy's files are read.
func (m *Metrics) CountEnvoyHits() {
	m.envoyHits = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_envoy_hits_total",
		Help: "Hits of limits in Envoy's files as Envoy's own service counts them, by limit and kind: total_hits, within_limit, near_limit, over_limit or shadow_mode. With --envoy-compat."}, []string{"rule", "kind"})
	m.registry.MustRegister(m.envoyHits)
}

func (m *Metrics) envoyHitsOf(name string) *envoyrls.Hits {
	if m.envoyHits == nil || name == "" {
		return nil
	}
	kind := func(kind string) prometheus.Counter { return m.envoyHits.WithLabelValues(name, kind) }
	return &envoyrls.Hits{
		Total: kind("total_hits"), Within: kind("within_limit"), Near: kind("near_limit"), Over: kind("over_limit"), Shadow: kind("shadow_mode"),
	}
}

// failedOpen reports the admissions of a limit in Envoy's files that fails open.
type failedOpen struct {
	metrics *Metrics
	limit   string
}

func (f failedOpen) Inc() { f.metrics.failOpen(f.limit, 1) }

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
