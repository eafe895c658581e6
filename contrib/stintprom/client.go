package stintprom

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/bulkhead"
	"github.com/stintdev/stint/resilience/client"
	"github.com/stintdev/stint/resilience/retrybudget"
)

// clientParts holds the parts of one dependency whose state is exported. Parts may be nil.
type clientParts struct {
	bulkhead *bulkhead.Bulkhead
	breaker  *breaker.Breaker
	budget   *retrybudget.Budget
}

// WatchClient exports the state of a chain's bulkhead and breaker, and of its retry
// budget, at each scrape. Nil parts are skipped. A chain replaces an earlier chain of the
// same name. It returns an error, and exports nothing, from the 1,001st name on.
func (m *Metrics) WatchClient(c client.Chain, retries *retrybudget.Budget) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return watch(&m.clients, c.Name, clientParts{c.Bulkhead, c.Breaker, retries})
}

// gauges describes what is read from clients at each scrape.
type gauges struct{ breakerState, bulkheadLimit, bulkheadInUse, bulkheadWaiting, budgetLeft *prometheus.Desc }

func (g *gauges) describe() {
	gauge := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("stint_client_"+name, help, append([]string{"dependency"}, labels...), nil)
	}
	*g = gauges{
		breakerState:    gauge("breaker_state", "1 for the state that the breaker is in.", "state"),
		bulkheadLimit:   gauge("bulkhead_limit", "Places that the bulkhead has."),
		bulkheadInUse:   gauge("bulkhead_in_use", "Places of the bulkhead that are held."),
		bulkheadWaiting: gauge("bulkhead_waiting", "Callers that wait for a place of the bulkhead."),
		budgetLeft:      gauge("budget_left", "Retries that the budget would grant now."),
	}
}

func (g *gauges) sendTo(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.breakerState, g.bulkheadLimit, g.bulkheadInUse, g.bulkheadWaiting, g.budgetLeft} {
		to <- d
	}
}

func (g *gauges) collect(name string, parts clientParts, to chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, append([]string{name}, labels...)...)
	}
	if b := parts.breaker; b != nil {
		current := b.State()
		for _, s := range []breaker.State{breaker.Closed, breaker.Open, breaker.HalfOpen, breaker.ForcedOpen, breaker.Disabled} {
			value := 0.0
			if s == current {
				value = 1
			}
			send(g.breakerState, value, strings.NewReplacer("-", "_", " ", "_").Replace(s.String()))
		}
	}
	if parts.bulkhead != nil {
		u := parts.bulkhead.Usage()
		send(g.bulkheadLimit, float64(u.Limit))
		send(g.bulkheadInUse, float64(u.InUse))
		send(g.bulkheadWaiting, float64(u.Waiting))
	}
	if parts.budget != nil {
		send(g.budgetLeft, float64(parts.budget.Usage().Left))
	}
}
