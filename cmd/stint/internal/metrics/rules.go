package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// What the label decision of stint_decisions_total says.
const (
	decisionAllow       = "allow"
	decisionDeny        = "deny"
	decisionShadowDeny  = "shadow_deny"
	decisionAllowListed = "whitelist"
	decisionDenyListed  = "blacklist"
	decisionErrorOpen   = "error_open"
	decisionErrorClosed = "error_closed"
	decisionErrorLocal  = "error_local"
)

// ruleCounters are the counters of one rule, looked up once when it loads.
type ruleCounters struct{ allow, deny, shadowDeny prometheus.Counter }

func (m *metrics) countersOf(id string) ruleCounters {
	return ruleCounters{
		allow:      m.decisions.WithLabelValues(id, decisionAllow),
		deny:       m.decisions.WithLabelValues(id, decisionDeny),
		shadowDeny: m.decisions.WithLabelValues(id, decisionShadowDeny),
	}
}

// forget removes the counters of a rule that is no more: names of rules may be
// as many as somebody publishes.
func (m *metrics) forget(id string) {
	for _, decision := range []string{
		decisionAllow, decisionDeny, decisionShadowDeny, decisionErrorOpen, decisionErrorClosed, decisionErrorLocal,
	} {
		m.decisions.DeleteLabelValues(id, decision)
	}
}

// count counts an outcome: once for every rule that charged the request, or
// denied it, or would have denied it. A rule that would have allowed what
// another denied charged nothing, so it counts nothing.
func (v *version) count(o *rule.Outcome) {
	switch {
	case o.List == rule.ListAllow:
		v.metrics.allowListed.Inc()
	case o.List == rule.ListDeny:
		v.metrics.denyListed.Inc()
	case len(o.Hits) == 0:
		v.metrics.unmatched.Inc()
	}
	for hits := o.Hits; len(hits) > 0; {
		n := sameRule(hits)
		v.countRule(hits[:n], o.Allowed())
		hits = hits[n:]
	}
}

// sameRule is how many of the first hits are of one rule: they stand together.
func sameRule(hits []rule.Hit) int {
	n := 1
	for n < len(hits) && hits[n].Rule == hits[0].Rule {
		n++
	}
	return n
}

func (v *version) countRule(hits []rule.Hit, allowed bool) {
	r := hits[0].Rule
	counters := &v.views[r].counters
	switch {
	case anyDegraded(hits) && (allowed || hits[0].Shadow || denies(r, hits)):
		v.metrics.decisions.WithLabelValues(r.ID, failureDecision(r.Policy.OnFailure)).Inc()
	case anyDegraded(hits):
	case hits[0].Shadow && denies(r, hits):
		counters.shadowDeny.Inc()
	case allowed:
		counters.allow.Inc()
	case denies(r, hits):
		counters.deny.Inc()
	}
}

func anyDegraded(hits []rule.Hit) bool {
	for i := range hits {
		if hits[i].Decision.Degraded {
			return true
		}
	}
	return false
}

// denies reports whether the rule, asked alone, would deny.
func denies(r *rule.Rule, hits []rule.Hit) bool {
	denied := 0
	for i := range hits {
		if !hits[i].Decision.Allowed {
			denied++
		}
	}
	return denied == len(hits) || denied > 0 && !r.Any()
}

func failureDecision(f stint.OnFailure) string {
	switch f {
	case stint.FailClosed:
		return decisionErrorClosed
	case stint.FailLocal:
		return decisionErrorLocal
	}
	return decisionErrorOpen
}

// countTake counts a decision on limits that the caller brought.
func (m *metrics) countTake(d *stint.Decision, onFailure stint.OnFailure) {
	switch {
	case d.Degraded:
		m.decisions.WithLabelValues("", failureDecision(onFailure)).Inc()
	case d.Allowed:
		m.takeAllowed.Inc()
	default:
		m.takeDenied.Inc()
	}
}
