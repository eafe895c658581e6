package clientmetrics

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint/resilience/client"
	"github.com/stintdev/stint/resilience/retry"
)

// Metrics is a [prometheus.Collector] and a client.Observer. Make one with [New]; the
// zero value is ready to use. It is safe for concurrent use.
type Metrics struct {
	calls     *prometheus.CounterVec   // by dependency, result
	durations *prometheus.HistogramVec // of calls, by dependency
	attempts  *prometheus.CounterVec   // by dependency, result
	refused   *prometheus.CounterVec   // by dependency, part
	decisions *prometheus.CounterVec   // by dependency, decision
	watched   watched
	once      sync.Once // makes the vectors
}

// New returns metrics without values.
func New() *Metrics { return &Metrics{} }

func (m *Metrics) start() {
	counter := func(name, help string, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"dependency", label})
	}
	m.calls = counter("stint_client_calls_total", "Calls by how they ended, their attempts taken together.", "result")
	m.attempts = counter("stint_client_attempts_total", "Attempts that were sent, by how they ended.", "result")
	m.refused = counter("stint_client_refused_total", "Attempts that were not sent, by the part that refused.", "part")
	m.decisions = counter("stint_client_retries_total",
		"What followed from attempts that failed: a retry, or why not.", "decision")
	m.durations = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "stint_client_call_duration_seconds",
		Help: "Time from a call's beginning to its answer, waits and retries included.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 16)}, []string{"dependency"})
}

// Observe counts an event.
func (m *Metrics) Observe(e client.Event) {
	m.once.Do(m.start)
	e.Name = shown(e.Name)
	switch e.Kind {
	case client.Sent:
		m.attempts.WithLabelValues(e.Name, e.Result).Inc()
	case client.Refused:
		m.refused.WithLabelValues(e.Name, e.Part.String()).Inc()
	case client.Decided:
		m.decisions.WithLabelValues(e.Name, decision(e.Step)).Inc()
	case client.Ended:
		m.calls.WithLabelValues(e.Name, e.Result).Inc()
		m.durations.WithLabelValues(e.Name).Observe(e.Took.Seconds())
	}
}

// shown returns a name as a valid label value: Prometheus accepts only UTF-8.
func shown(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

// decision returns the label value of a step.
func decision(s retry.Step) string {
	switch s.Stop {
	case retry.Continue:
		return "retry"
	case retry.StopNotRetryable:
		return "not_to_be_repeated"
	case retry.StopAttempts:
		return "attempts_used_up"
	case retry.StopContext:
		return "context_ended"
	case retry.StopDeadline:
		return "deadline_too_near"
	case retry.StopRetryAfter:
		return "asked_to_wait_too_long"
	case retry.StopBudget:
		return "budget_used_up"
	}
	return "unknown"
}

func (m *Metrics) vectors() []prometheus.Collector {
	m.once.Do(m.start)
	return []prometheus.Collector{m.calls, m.durations, m.attempts, m.refused, m.decisions}
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, v := range m.vectors() {
		v.Describe(to)
	}
	m.watched.describe(to)
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, v := range m.vectors() {
		v.Collect(to)
	}
	m.watched.collect(to)
}
