package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// overrideLimits is the label limit of the limits that overrides have. A rule may have very
// many overrides, so they share the series. No limit has this name.
const overrideLimits = "(override)"

// limitVectors are the families that every limit of a rule has a series of.
type limitVectors struct{ denials, near *prometheus.CounterVec }

func newLimitVectors(r prometheus.Registerer) limitVectors {
	v := limitVectors{
		denials: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_limit_denials_total",
			Help: "Requests that the limit denied, or in mode shadow would have denied."}, []string{"rule", "limit"}),
		near: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_limit_near_total",
			Help: "Requests that the limit allowed with less than --near-limit of it left."}, []string{"rule", "limit"}),
	}
	r.MustRegister(v.denials, v.near)
	return v
}

// limitCounters are the counters of one limit.
type limitCounters struct{ denials, near prometheus.Counter }

func (v *limitVectors) of(rule, limit string) *limitCounters {
	return &limitCounters{v.denials.WithLabelValues(rule, limit), v.near.WithLabelValues(rule, limit)}
}

func (v *limitVectors) forget(rule, limit string) {
	v.denials.DeleteLabelValues(rule, limit)
	v.near.DeleteLabelValues(rule, limit)
}

// SetCounters are the counters of a rule set, looked up once when it loads: a check finds
// those of a rule and of a limit by their identity, not by their names.
type SetCounters struct {
	rules map[*rule.Rule]*RuleCounters
	shown []shownLimit
}

// shownLimit is a limit as stint_limit_info shows it.
type shownLimit struct {
	rule  *rule.Rule
	tier  string
	limit stint.Limit
}

// Rules returns the counters of a rule set.
func (m *Metrics) Rules(set *rule.Set) *SetCounters {
	c := &SetCounters{rules: make(map[*rule.Rule]*RuleCounters, len(set.Rules()))}
	for _, r := range set.Rules() {
		counters := m.Rule(r.ID, r.Policy.OnFailure)
		counters.live = m.live.of(r.ID, counters)
		counters.limits = map[stint.Limit]*limitCounters{}
		counters.override = sync.OnceValue(func() *limitCounters { return m.limits.of(r.ID, overrideLimits) })
		for _, e := range r.Effective(set) {
			if e.Override != "" {
				continue
			}
			for _, l := range e.Limits {
				counters.limits[l] = m.limits.of(r.ID, l.Name()) // tiers share the counters of a name
				c.shown = append(c.shown, shownLimit{r, e.Tier, l})
			}
		}
		c.rules[r] = counters
	}
	return c
}

// Forget removes the series of the rules and limits that the next sets no longer have, so that
// the ids of old rules do not keep their series.
func (m *Metrics) Forget(old, next []*rule.Set) {
	rules, limits := map[string]bool{}, map[[2]string]bool{}
	for _, set := range next {
		for _, r := range set.Rules() {
			rules[r.ID] = true
			for _, name := range limitNames(r, set) {
				limits[[2]string{r.ID, name}] = true
			}
		}
	}
	for _, set := range old {
		for _, r := range set.Rules() {
			gone := !rules[r.ID]
			if gone {
				m.forgetRule(r.ID)
			}
			for _, name := range limitNames(r, set) {
				if !limits[[2]string{r.ID, name}] && (gone || name != overrideLimits) {
					m.limits.forget(r.ID, name)
				}
			}
		}
	}
}

// limitNames returns the values of the label limit that a rule may have.
func limitNames(r *rule.Rule, set *rule.Set) []string {
	names := []string{overrideLimits}
	for _, e := range r.Effective(set) {
		if e.Override == "" {
			for _, l := range e.Limits {
				names = append(names, l.Name())
			}
		}
	}
	return names
}

// countLimit counts the decision of one limit of a rule. allowed says whether the whole
// request was allowed.
func (m *Metrics) countLimit(h *rule.Hit, counters *RuleCounters, allowed bool) {
	d := &h.Decision
	if d.Degraded || d.Penalty != stint.NoPenalty {
		return
	}
	switch {
	case !d.Allowed:
		counters.ofLimit(h.Limit).denials.Inc()
	case (allowed || h.Shadow) && float64(d.Remaining) < m.options.NearLimit*float64(d.Limit):
		counters.ofLimit(h.Limit).near.Inc()
	}
}

func (c *RuleCounters) ofLimit(l stint.Limit) *limitCounters {
	if one := c.limits[l]; one != nil {
		return one
	}
	return c.override()
}

// ReadRules shows the limits of the rules in force.
func (m *Metrics) ReadRules(inForce func() *SetCounters) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"rule", "limit", "tier"}, labels...), nil)
	}
	info := desc("stint_limit_info", "Always 1: the limits in force, without those of overrides.", "algorithm", "mode", "consistency", "on_store_failure")
	capacity := desc("stint_limit_capacity", "Greatest cost that an idle key is allowed at once.")
	window := desc("stint_limit_window_seconds", "Window of the limit; of a bucket, the time from empty to full.")
	rate := desc("stint_limit_rate", "Refill rate of a bucket in units a second; of another algorithm, its limit divided by its window.")
	m.registry.MustRegister(collector(func(s *scrape) {
		for _, one := range inForce().shown {
			r, l := one.rule, one.limit
			gauge := func(d *prometheus.Desc, value float64, more ...string) {
				labels := append([]string{r.ID, l.Name(), one.tier}, more...)
				s.to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
			}
			gauge(info, 1, l.Algorithm().String(), r.Mode.String(), r.Policy.Consistency.String(), r.Policy.OnFailure.String())
			gauge(capacity, float64(l.Max()))
			gauge(window, l.Window().Seconds())
			gauge(rate, rateOf(l))
		}
	}))
}

// rateOf returns the units a second that a limit grants on average.
func rateOf(l stint.Limit) float64 {
	if r := l.Rate(); r != nil {
		rate, _ := r.Float64()
		return rate
	}
	return float64(l.Max()) / l.Window().Seconds()
}
