package stintprom

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/bulkhead"
	"github.com/stintdev/stint/resilience/client"
	"github.com/stintdev/stint/resilience/retrybudget"
)

// Metrics is a [prometheus.Collector] and a client.Observer. Make one with [New]; the
// zero value is ready to use. It is safe for concurrent use.
type Metrics struct {
	calls     *prometheus.CounterVec   // labels: dependency, result
	durations *prometheus.HistogramVec // durations of calls; label: dependency
	attempts  *prometheus.CounterVec   // labels: dependency, result
	refused   *prometheus.CounterVec   // labels: dependency, part
	decisions *prometheus.CounterVec   // labels: dependency, decision
	gauges    gauges
	once      sync.Once // makes the vectors and the descriptions of the gauges

	mu      sync.Mutex
	watched map[string]watched // by the dependency's name; guarded by mu
}

// gauges describes what is read at each scrape.
type gauges struct{ breakerState, bulkheadLimit, bulkheadInUse, bulkheadWaiting, budgetLeft *prometheus.Desc }

// watched holds the parts of one dependency whose state is exported. Parts may be nil.
type watched struct {
	bulkhead *bulkhead.Bulkhead
	breaker  *breaker.Breaker
	budget   *retrybudget.Budget
}

// New returns metrics without values.
func New() *Metrics { return &Metrics{} }

func (m *Metrics) start() {
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"dependency", label})
	}
	m.calls = counter("stint_client_calls_total", "Calls by how they ended, their attempts taken together.", "result")
	m.attempts = counter("stint_client_attempts_total", "Attempts that were sent, by how they ended.", "result")
	m.refused = counter("stint_client_refused_total", "Attempts that were not sent, by the part that refused.", "part")
	m.decisions = counter("stint_client_retries_total",
		"What followed from attempts that failed: a retry, or why not.", "decision")
	m.durations = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "stint_client_call_duration_seconds",
		Help: "Time from a call's beginning to its answer, waits and retries included.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 16)}, []string{"dependency"})

	gauge := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("stint_client_"+name, help, append([]string{"dependency"}, labels...), nil)
	}
	m.gauges = gauges{
		breakerState:    gauge("breaker_state", "1 for the state that the breaker is in.", "state"),
		bulkheadLimit:   gauge("bulkhead_limit", "Places that the bulkhead has."),
		bulkheadInUse:   gauge("bulkhead_in_use", "Places of the bulkhead that are held."),
		bulkheadWaiting: gauge("bulkhead_waiting", "Callers that wait for a place of the bulkhead."),
		budgetLeft:      gauge("budget_left", "Retries that the budget would grant now."),
	}
}

// Observe counts an event.
func (m *Metrics) Observe(e client.Event) {
	m.once.Do(m.start)
	e.Name = dependency(e.Name)
	switch e.Kind {
	case client.Sent:
		m.attempts.WithLabelValues(e.Name, e.Result).Inc()
	case client.Refused:
		m.refused.WithLabelValues(e.Name, e.Part.String()).Inc()
	case client.Decided:
		m.decisions.WithLabelValues(e.Name, label(e.Step.Stop.String())).Inc()
	case client.Ended:
		m.calls.WithLabelValues(e.Name, e.Result).Inc()
		m.durations.WithLabelValues(e.Name).Observe(e.Took.Seconds())
	}
}

// Watch exports the state of a chain's bulkhead and breaker, and of its retry budget, at
// each scrape. Nil parts are skipped. A chain replaces an earlier chain of the same name.
func (m *Metrics) Watch(c client.Chain, retries *retrybudget.Budget) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.watched == nil {
		m.watched = map[string]watched{}
	}
	m.watched[dependency(c.Name)] = watched{c.Bulkhead, c.Breaker, retries}
}

// dependency returns a name as a valid label value: Prometheus accepts only UTF-8.
func dependency(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

// label returns the name of a state or a reason as a label value: "half-open" becomes
// "half_open".
func label(name string) string { return strings.NewReplacer("-", "_", " ", "_").Replace(name) }

func (m *Metrics) vectors() []prometheus.Collector {
	m.once.Do(m.start)
	return []prometheus.Collector{m.calls, m.durations, m.attempts, m.refused, m.decisions}
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, v := range m.vectors() {
		v.Describe(to)
	}
	g := m.gauges
	for _, d := range []*prometheus.Desc{g.breakerState, g.bulkheadLimit, g.bulkheadInUse, g.bulkheadWaiting, g.budgetLeft} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, v := range m.vectors() {
		v.Collect(to)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, w := range m.watched {
		m.gauges.collect(name, w, to)
	}
}

func (g *gauges) collect(name string, w watched, to chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, append([]string{name}, labels...)...)
	}
	if w.breaker != nil {
		current := w.breaker.State()
		for _, s := range []breaker.State{breaker.Closed, breaker.Open, breaker.HalfOpen, breaker.ForcedOpen, breaker.Disabled} {
			value := 0.0
			if s == current {
				value = 1
			}
			send(g.breakerState, value, label(s.String()))
		}
	}
	if w.bulkhead != nil {
		u := w.bulkhead.Usage()
		send(g.bulkheadLimit, float64(u.Limit))
		send(g.bulkheadInUse, float64(u.InUse))
		send(g.bulkheadWaiting, float64(u.Waiting))
	}
	if w.budget != nil {
		send(g.budgetLeft, float64(w.budget.Usage().Left))
	}
}
