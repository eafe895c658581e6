package clientmetrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/bulkhead"
	"github.com/stintdev/stint/resilience/client"
	"github.com/stintdev/stint/resilience/retrybudget"
)

// Watch exports the state of a client's bulkhead and breaker, and of its retry budget, at
// each scrape. Nil parts are skipped. Parts replace earlier Parts of the same name.
func (m *Metrics) Watch(p client.Chain, retries *retrybudget.Budget) {
	m.watched.mu.Lock()
	defer m.watched.mu.Unlock()
	if m.watched.all == nil {
		m.watched.all = map[string]state{}
	}
	m.watched.all[shown(p.Name)] = state{p.Bulkhead, p.Breaker, retries}
}

// watched holds what is read at each scrape.
type watched struct {
	mu  sync.Mutex
	all map[string]state // by the dependency's name; guarded by mu
}

type state struct {
	bulkhead *bulkhead.Bulkhead
	breaker  *breaker.Breaker
	budget   *retrybudget.Budget
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("stint_client_"+name, help, append([]string{"dependency"}, labels...), nil)
}

func (w *watched) describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{breakerState(), limit(), inUse(), waiting(), budgetLeft()} {
		to <- d
	}
}

func breakerState() *prometheus.Desc {
	return desc("breaker_state", "1 for the state that the breaker is in.", "state")
}

func limit() *prometheus.Desc { return desc("bulkhead_limit", "Places that the bulkhead has.") }

func inUse() *prometheus.Desc {
	return desc("bulkhead_in_use", "Places of the bulkhead that are held.")
}

func waiting() *prometheus.Desc {
	return desc("bulkhead_waiting", "Callers that wait for a place of the bulkhead.")
}

func budgetLeft() *prometheus.Desc {
	return desc("budget_left", "Retries that the budget would grant now.")
}

func (w *watched) collect(to chan<- prometheus.Metric) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, s := range w.all {
		s.collect(name, to)
	}
}

func (s state) collect(name string, to chan<- prometheus.Metric) {
	show := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, append([]string{name}, labels...)...)
	}
	if s.breaker != nil {
		now := s.breaker.State()
		for _, each := range []breaker.State{breaker.Closed, breaker.Open, breaker.HalfOpen, breaker.ForcedOpen, breaker.Disabled} {
			show(breakerState(), oneIf(each == now), label(each))
		}
	}
	if s.bulkhead != nil {
		u := s.bulkhead.Usage()
		show(limit(), float64(u.Limit))
		show(inUse(), float64(u.InUse))
		show(waiting(), float64(u.Waiting))
	}
	if s.budget != nil {
		show(budgetLeft(), float64(s.budget.Usage().Left))
	}
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// label returns the label value of a state.
func label(s breaker.State) string {
	switch s {
	case breaker.HalfOpen:
		return "half_open"
	case breaker.ForcedOpen:
		return "forced_open"
	}
	return s.String()
}
