package rulelimit

import (
	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/rule"
)

// answerOf returns the answer that response headers are made from. It keeps no reference
// to the outcome.
func answerOf(o *rule.Outcome) httplimit.Answer {
	a := httplimit.Answer{Decision: o.Decision, Binding: o.Binding, Listed: o.List == rule.ListDeny, Unavailable: o.Unavailable(), Reason: o.Reason()}
	if o.Binding < 0 {
		return a
	}
	binding := o.Hits[o.Binding].Rule
	a.Dialect, _ = httplimit.ParseDialect(binding.Headers) // the rule set refuses unknown dialects
	a.Jitter = binding.RetryJitter
	a.Policies = make([]httplimit.Policy, 0, len(o.Hits))
	for hits := o.Hits; len(hits) > 0 && !hits[0].Shadow; {
		n := 1 // hits of one rule are adjacent
		for n < len(hits) && hits[n].Rule == hits[0].Rule {
			n++
		}
		a.Policies = appendPolicies(a.Policies, hits[:n])
		hits = hits[n:]
	}
	return a
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
