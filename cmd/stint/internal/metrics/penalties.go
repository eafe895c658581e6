package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// penalties count the penalties that this node has begun, and show how many of them last.
//
// A flood can begin penalties for any number of callers, so their ends are not kept one by
// one: the ends of about the same time share a count. The width of that time is about a
// sixtieth of the penalty, so that a rule with a fixed length has at most 65 counts.
type penalties struct {
	began  *prometheus.CounterVec // labels: rule, penalty
	denied *prometheus.CounterVec // label: rule
	active *prometheus.Desc

	mu   sync.Mutex
	ends map[penaltyLabels]map[time.Time]int // guarded by mu
}

type penaltyLabels struct{ rule, penalty string }

func newPenalties() *penalties {
	return &penalties{
		began: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_penalties_total",
			Help: "Penalties that this node has begun, by rule and kind."}, []string{"rule", "penalty"}),
		denied: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_penalty_denials_total",
			Help: "Requests denied because their caller was being punished, by rule."}, []string{"rule"}),
		active: prometheus.NewDesc("stint_penalties_active", "Penalties that this node has begun and whose time is not over, by rule and kind.", []string{"rule", "penalty"}, nil),
		ends:   map[penaltyLabels]map[time.Time]int{},
	}
}

// PenaltyBegan counts a penalty under a rule that lasts for the given time.
func (m *Metrics) PenaltyBegan(rule, kind string, lasts time.Duration) {
	m.penalties.begin(penaltyLabels{rule, kind}, time.Now(), lasts)
}

// PenaltyDenied counts a request denied because its caller is being punished.
func (m *Metrics) PenaltyDenied(rule string) { m.penalties.denied.WithLabelValues(rule).Inc() }

func (p *penalties) begin(l penaltyLabels, now time.Time, lasts time.Duration) {
	p.began.WithLabelValues(l.rule, l.penalty).Inc()
	width := time.Second
	for width < lasts/64 {
		width *= 2
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ends[l] == nil {
		p.ends[l] = map[time.Time]int{}
	}
	end := now.Add(lasts).Truncate(width).UTC()
	if p.ends[l][end] == 0 { // seldom: at most once in each width
		p.expireLocked(l, now)
	}
	p.ends[l][end]++
}

// expireLocked forgets the ends that are over.
func (p *penalties) expireLocked(l penaltyLabels, now time.Time) {
	for end := range p.ends[l] {
		if !end.After(now) {
			delete(p.ends[l], end)
		}
	}
}

// collect sends the number of penalties that last at the given time.
func (p *penalties) collect(s *scrape, now time.Time) {
	for l, n := range p.lasting(now) {
		s.to <- prometheus.MustNewConstMetric(p.active, prometheus.GaugeValue, float64(n), l.rule, l.penalty)
	}
}

func (p *penalties) lasting(now time.Time) map[penaltyLabels]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	lasting := make(map[penaltyLabels]int, len(p.ends))
	for l, ends := range p.ends {
		p.expireLocked(l, now)
		lasting[l] = 0
		for _, n := range ends {
			lasting[l] += n
		}
	}
	return lasting
}

// forget removes the series of a rule.
func (p *penalties) forget(rule string) {
	p.began.DeletePartialMatch(prometheus.Labels{"rule": rule})
	p.denied.DeleteLabelValues(rule)
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.ends {
		if l.rule == rule {
			delete(p.ends, l)
		}
	}
}
