package server

import (
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// decisionBody is a decision as the API writes it. Its members and their
// order are a contract with callers.
type decisionBody struct {
	decisionNumbers
	Rule   string      `json:"rule"`
	Limits []limitLine `json:"limits"`
}

// limitLine is the decision of one claim.
type limitLine struct {
	Rule string `json:"rule"`
	Name string `json:"name"`
	decisionNumbers
	Shadow bool `json:"shadow,omitempty"` // decided, and never denies
}

// decisionNumbers are what a decision and each of its lines have in common.
// RetryAfterMS is absent when no wait is long enough.
type decisionNumbers struct {
	Allowed      bool   `json:"allowed"`
	Limit        int64  `json:"limit"`
	Remaining    int64  `json:"remaining"`
	RetryAfterMS *int64 `json:"retry_after_ms,omitempty"`
	ResetAfterMS int64  `json:"reset_after_ms"`
	DelayMS      int64  `json:"delay_ms"`
	Never        bool   `json:"never"`
	Degraded     bool   `json:"degraded"`
	AtUS         int64  `json:"at_us"`
}

// uncountedBody is the answer to a request that no enforced limit counted.
type uncountedBody struct {
	Allowed bool        `json:"allowed"`
	Listed  bool        `json:"listed,omitempty"` // denied by a list
	Limits  []limitLine `json:"limits"`
}

func numbersOf(d *stint.Decision) decisionNumbers {
	n := decisionNumbers{
		Allowed: d.Allowed, Limit: d.Limit, Remaining: d.Remaining,
		ResetAfterMS: milliseconds(d.ResetAfter), DelayMS: milliseconds(d.Delay),
		Never: d.RetryAfter == stint.Never, Degraded: d.Degraded, AtUS: d.At,
	}
	if !n.Never {
		retry := milliseconds(d.RetryAfter)
		n.RetryAfterMS = &retry
	}
	return n
}

// milliseconds rounds up, so that a caller who waits so long never comes
// early.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// outcomeBody is what the rules decided.
func outcomeBody(o *rule.Outcome) any {
	lines := make([]limitLine, len(o.Hits))
	for i := range o.Hits {
		h := &o.Hits[i]
		lines[i] = limitLine{Rule: h.Rule.ID, Name: h.Limit.Name(), decisionNumbers: numbersOf(&h.Decision), Shadow: h.Shadow}
	}
	if o.List != rule.ListNone || o.Face < 0 {
		return uncountedBody{Allowed: o.Allowed(), Listed: o.List == rule.ListDeny, Limits: lines}
	}
	return decisionBody{decisionNumbers: numbersOf(&o.Decision), Rule: o.Hits[o.Face].Rule.ID, Limits: lines}
}

// takeBody is what the claims of one group got, and the decision that speaks
// for them.
func takeBody(claims []stint.Claim, decisions []stint.Decision) (stint.Decision, decisionBody) {
	_, face := stint.Face(claims, decisions)
	lines := make([]limitLine, len(claims))
	for i := range claims {
		lines[i] = limitLine{Name: claims[i].Limit.Name(), decisionNumbers: numbersOf(&decisions[i])}
	}
	return face, decisionBody{decisionNumbers: numbersOf(&face), Limits: lines}
}
