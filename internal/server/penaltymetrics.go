package server

import "github.com/prometheus/client_golang/prometheus"

// penalties count punishments, by the rules that punish.
type penalties struct {
	began  *prometheus.CounterVec // by rule, penalty
	denied *prometheus.CounterVec // by rule
}

func (m *metrics) newPenalties() *penalties {
	p := &penalties{
		began: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_penalties_total",
			Help: "Penalties that this node has begun, by rule and kind."}, []string{"rule", "penalty"}),
		denied: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_penalty_denials_total",
			Help: "Requests that were denied because their caller was being punished, by rule."}, []string{"rule"}),
	}
	m.registry.MustRegister(p.began, p.denied)
	return p
}

// Began counts a punishment.
func (p *penalties) Began(rule string, ban bool) {
	kind := "cool_down"
	if ban {
		kind = "ban"
	}
	p.began.WithLabelValues(rule, kind).Inc()
}

// Denied counts a denial.
func (p *penalties) Denied(rule string) { p.denied.WithLabelValues(rule).Inc() }
