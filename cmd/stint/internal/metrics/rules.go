package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// takes is the label rule of stint_decisions_total for limits that callers bring. No rule has
// this id.
const takes = "(take)"

// Values of the label decision of stint_decisions_total.
const (
	decisionAllow          = "allow"
	decisionDeny           = "deny"
	decisionShadowDeny     = "shadow_deny"
	decisionAllowListed    = "whitelist"
	decisionDenyListed     = "blacklist"
	decisionErrorOpen      = "error_open"
	decisionErrorClosed    = "error_closed"
	decisionErrorLocal     = "error_local"
	decisionErrorLastKnown = "error_last_known"
)

// RuleCounters are the counters of one rule.
type RuleCounters struct {
	allow, deny, shadowDeny prometheus.Counter
	failed                  prometheus.Counter // decided without the store, by the rule's policy

	live *liveRule // nil for limits in Envoy's files

	limits   map[stint.Limit]*limitCounters
	override func() *limitCounters // of the limits that are not in limits
}

// Rule returns the counters of the rule with the given id and failure policy.
func (m *Metrics) Rule(id string, onFailure stint.OnFailure) *RuleCounters {
	return &RuleCounters{
		allow:      m.decisions.WithLabelValues(id, decisionAllow),
		deny:       m.decisions.WithLabelValues(id, decisionDeny),
		shadowDeny: m.decisions.WithLabelValues(id, decisionShadowDeny),
		failed:     m.decisions.WithLabelValues(id, failureDecision(onFailure)),
	}
}

// forgetRule removes the series of a rule that is no longer in force.
func (m *Metrics) forgetRule(id string) {
	for _, decision := range []string{
		decisionAllow, decisionDeny, decisionShadowDeny, decisionErrorOpen, decisionErrorClosed, decisionErrorLocal, decisionErrorLastKnown,
	} {
		m.decisions.DeleteLabelValues(id, decision)
	}
	m.penalties.forget(id)
	m.live.forget(id)
}

// CountOutcome counts an outcome once for every rule that charged the request, denied
// it, or would have denied it in shadow mode. A rule that would have allowed a request
// that another rule denied charged nothing, so it counts nothing. Neither does a rule that
// fails open, if another rule denied the request while the store failed. counters has the
// counters of all rules of the outcome.
func (m *Metrics) CountOutcome(o *rule.Outcome, counters *SetCounters) {
	switch o.List {
	case rule.ListAllow:
		m.allowListed.Inc()
	case rule.ListDeny:
		m.denyListed.Inc()
	case rule.ListNone:
	}
	allowed := o.Allowed()
	for hits := o.Hits; len(hits) > 0; {
		n := 1
		for n < len(hits) && hits[n].Rule == hits[0].Rule { // the hits of a rule are adjacent
			n++
		}
		m.countRule(hits[:n], counters.rules[hits[0].Rule], allowed)
		hits = hits[n:]
	}
}

// countRule counts the hits of one rule.
func (m *Metrics) countRule(hits []rule.Hit, counters *RuleCounters, allowed bool) {
	r := hits[0].Rule
	open := r.Policy.OnFailure == stint.FailOpen
	for i := range hits {
		m.countLimit(&hits[i], counters, allowed)
	}
	switch {
	case anyDegraded(hits) && (allowed || hits[0].Shadow || !open && denies(r, hits)):
		counters.failed.Inc()
		if open && !hits[0].Shadow {
			m.failOpen(r.ID, 1)
		}
	case anyDegraded(hits):
	case hits[0].Shadow && denies(r, hits):
		counters.shadowDeny.Inc()
	case allowed:
		counters.allow.Inc()
	case denies(r, hits):
		counters.deny.Inc()
	}
	counters.live.mark()
}

func anyDegraded(hits []rule.Hit) bool {
	for i := range hits {
		if hits[i].Decision.Degraded {
			return true
		}
	}
	return false
}

// denies reports whether the rule by itself would deny.
func denies(r *rule.Rule, hits []rule.Hit) bool {
	denied := 0
	for i := range hits {
		if !hits[i].Decision.Allowed {
			denied++
		}
	}
	return denied == len(hits) || denied > 0 && !r.Any()
}

// OnFailOpen sets the function that receives the number of requests that were admitted
// without a decision of the store, because a rule fails open. The rule is "" for limits that
// callers bring. It must be set before the first decision.
func (m *Metrics) OnFailOpen(admitted func(rule string, n int)) { m.failOpen = admitted }

func failureDecision(f stint.OnFailure) string {
	switch f {
	case stint.FailClosed:
		return decisionErrorClosed
	case stint.FailLocal:
		return decisionErrorLocal
	case stint.FailLastKnown:
		return decisionErrorLastKnown
	}
	return decisionErrorOpen
}

func asFloat(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
