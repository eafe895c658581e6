package httpapi

import (
	"context"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/rule"
)

// view holds what the server needs for each rule, looked up once when the rule loads.
type view struct {
	counters metrics.RuleCounters
	dialect  httplimit.Dialect
}

func newView(r *rule.Rule, m *metrics.Metrics) *view {
	// The error is ignored: the rule set refuses unknown dialects.
	dialect, _ := httplimit.ParseDialect(r.Headers)
	return &view{counters: m.Rule(r.ID), dialect: dialect}
}

// decider decides the requests of one surface by the rules.
type decider struct {
	server  *Server
	surface metrics.Surface
}

// Decide implements httplimit.Decider.
func (d *decider) Decide(ctx context.Context, r *httplimit.Request) (httplimit.Answer, error) {
	started := time.Now()
	o := d.server.outcomes.get()
	defer d.server.outcomes.put(o)
	v, err := d.server.rules.decideBy(ctx, r, 1, o)
	d.server.metrics.ObserveCheck(d.surface, time.Since(started))
	if err != nil {
		return httplimit.Answer{}, err
	}
	return v.answer(o), nil
}

// answer converts an outcome to the answer that response headers are made from. The
// answer keeps no reference to the outcome.
func (v *version) answer(o *rule.Outcome) httplimit.Answer {
	a := httplimit.Answer{Decision: o.Decision, Face: o.Face, Listed: o.List == rule.ListDeny, Unavailable: closed(o)}
	if o.Face < 0 {
		return a
	}
	face := o.Hits[o.Face].Rule
	a.Dialect, a.Jitter = v.views[face].dialect, face.RetryJitter
	a.Policies = make([]httplimit.Policy, 0, len(o.Hits))
	for hits := o.Hits; len(hits) > 0 && !hits[0].Shadow; {
		n := sameRule(hits)
		a.Policies = appendPolicies(a.Policies, hits[:n])
		hits = hits[n:]
	}
	return a
}

// sameRule returns how many of the first hits are of one rule: they are adjacent.
func sameRule(hits []rule.Hit) int {
	n := 1
	for n < len(hits) && hits[n].Rule == hits[0].Rule {
		n++
	}
	return n
}

// appendPolicies appends the policies of one rule's limits.
func appendPolicies(policies []httplimit.Policy, hits []rule.Hit) []httplimit.Policy {
	for i := range hits {
		policies = append(policies, httplimit.Policy{
			Name:     httplimit.PolicyName(hits[i].Limit, len(hits) == 1),
			Limit:    decidingLimit(&hits[i]),
			Exceeded: !hits[i].Decision.Allowed,
		})
	}
	return policies
}

// decidingLimit returns the limit that decided a hit: for a degraded decision, the local
// limit of its rule if it has one.
func decidingLimit(h *rule.Hit) stint.Limit {
	if h.Decision.Degraded && h.Rule.Local.Valid() {
		return h.Rule.Local
	}
	return h.Limit
}
