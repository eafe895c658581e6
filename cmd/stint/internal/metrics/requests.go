package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint/cmd/stint/internal/decide"
	"github.com/stintdev/stint/rule"
)

// endings are the values of the label outcome of stint_requests_total.
var endings = [decide.Endings]string{"allow", "deny", "degraded_allow", "degraded_deny", "error", "invalid"}

// requestCounters count what every surface did. They are looked up once.
type requestCounters struct {
	ended     [Surfaces][decide.Endings]prometheus.Counter
	unmatched [Surfaces]prometheus.Counter // nil for surfaces whose requests bring their limits
}

// newRequestCounters makes all series at once, so that a rate over them is 0 and not missing.
func newRequestCounters(r prometheus.Registerer) (c requestCounters) {
	ended := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_requests_total",
		Help: "Checks and takes, by surface and by how they ended."}, []string{"surface", "outcome"})
	unmatched := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_unmatched_total",
		Help: "Requests allowed because no rule, list or limit matched them, by surface."}, []string{"surface"})
	r.MustRegister(ended, unmatched)
	for s := range Surfaces {
		for e, name := range endings {
			c.ended[s][e] = ended.WithLabelValues(s.String(), name)
		}
		if s != Take && s != RESP {
			c.unmatched[s] = unmatched.WithLabelValues(s.String())
		}
	}
	return c
}

// RequestEnded counts n requests of a surface.
func (m *Metrics) RequestEnded(s Surface, e decide.Ending, n int) {
	if n > 0 {
		m.requests.ended[s][e].Add(float64(n))
	}
}

// CheckDecided counts the outcome of one check by the rules.
func (m *Metrics) CheckDecided(s Surface, o *rule.Outcome) {
	allowed := o.Allowed()
	m.requests.ended[s][decide.EndingOf(allowed, degraded(o))].Inc()
	if o.List == rule.ListNone && len(o.Hits) == 0 {
		m.requests.unmatched[s].Inc()
	}
}

// degraded reports whether an enforced limit of a check was decided without the store.
func degraded(o *rule.Outcome) bool {
	for i := range o.Hits {
		if h := &o.Hits[i]; !h.Shadow && h.Decision.Degraded {
			return true
		}
	}
	return false
}

// Unmatched returns the counter of the requests of a surface that nothing matched.
func (m *Metrics) Unmatched(s Surface) prometheus.Counter { return m.requests.unmatched[s] }
