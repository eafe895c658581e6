package server

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint/cmd/stint/internal/penalty"
)

// penalties count punishments, by the rules that punish, and tell of them.
type penalties struct {
	began  *prometheus.CounterVec // by rule, penalty
	denied *prometheus.CounterVec // by rule
	log    penaltyLog
}

func (m *metrics) newPenalties(log *slog.Logger) *penalties {
	p := &penalties{
		began: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_penalties_total",
			Help: "Penalties that this node has begun, by rule and kind."}, []string{"rule", "penalty"}),
		denied: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_penalty_denials_total",
			Help: "Requests that were denied because their caller was being punished, by rule."}, []string{"rule"}),
		log: penaltyLog{log: log},
	}
	m.registry.MustRegister(p.began, p.denied)
	return p
}

// Began counts a punishment.
func (p *penalties) Began(one *penalty.Punishment) {
	p.began.WithLabelValues(one.Rule, kindOf(one)).Inc()
	p.log.began(one, time.Now())
}

// Denied counts a denial.
func (p *penalties) Denied(rule string) { p.denied.WithLabelValues(rule).Inc() }
