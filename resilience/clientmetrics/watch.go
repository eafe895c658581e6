package clientmetrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/budget"
	"github.com/stintdev/stint/resilience/bulkhead"
	"github.com/stintdev/stint/resilience/client"
)

// Watch shows the state of a client's bulkhead and breaker, and of the budget
// of its retries, at each scrape; nil is none. Parts of the same name replace
// those that were there before.
func (m *Metrics) Watch(p client.Parts, retries *budget.Budget) {
	m.watched.mu.Lock()
	defer m.watched.mu.Unlock()
	if m.watched.all == nil {
		m.watched.all = map[string]state{}
	}
	m.watched.all[p.Name] = state{p.Bulkhead, p.Breaker, retries}
}

// watched is what is read at each scrape.
type watched struct {
	mu  sync.Mutex
	all map[string]state // by the dependency's name; guarded by mu
}

type state struct {
	bulkhead *bulkhead.Bulkhead
	breaker  *breaker.Breaker
	budget   *budget.Budget
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("stint_client_"+name, help, append([]string{"dependency"}, labels...), nil)
}

func (w *watched) describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{breakerState(), places("limit"), places("in_use"), places("waiting"), budgetLeft()} {
		to <- d
	}
}

func breakerState() *prometheus.Desc {
	return desc("breaker_state", "1 for the state that the breaker is in.", "state")
}

func budgetLeft() *prometheus.Desc {
	return desc("budget_left", "Retries that the budget would grant now.")
}

func places(what string) *prometheus.Desc {
	return desc("bulkhead_"+what, "Places of the bulkhead: how many there are, how many are held, how many callers wait for one.")
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
			is := 0.0
			if each == now {
				is = 1
			}
			show(breakerState(), is, label(each))
		}
	}
	if s.bulkhead != nil {
		u := s.bulkhead.Usage()
		show(places("limit"), float64(u.Limit))
		show(places("in_use"), float64(u.InUse))
		show(places("waiting"), float64(u.Waiting))
	}
	if s.budget != nil {
		show(budgetLeft(), float64(s.budget.Usage().Left))
	}
}

// label is a state as a label has it.
func label(s breaker.State) string {
	switch s {
	case breaker.HalfOpen:
		return "half_open"
	case breaker.ForcedOpen:
		return "forced_open"
	}
	return s.String()
}
