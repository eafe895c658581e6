package replay

import (
	"context"

	"github.com/stintdev/stint"
)

// judge decides events and counts the decisions.
type judge interface {
	// decide decides an event at its time. An error with CodeInvalid means that the
	// event is invalid; any other error ends the replay.
	decide(ctx context.Context, p *pending, v *verdict) error
	// perRule returns the counts of each rule.
	perRule() []RuleCount
}

// verdict is the part of a decision line that does not come from the event.
type verdict struct {
	rule, key string // of the binding claim; empty without one
	decision  stint.Decision
}

// RuleCount holds the counts of one rule. A rule in shadow mode denies nothing;
// its counts are what it would have done.
type RuleCount struct {
	Rule    string `json:"rule"` // id of the rule; empty when a limit is replayed
	Mode    string `json:"mode"` // enforce or shadow
	Events  int64  `json:"events"`
	Allowed int64  `json:"allowed"`
	// Denied counts the events whose denial this rule decided. If several rules
	// would deny an event, the rule with the longest wait counts.
	Denied int64 `json:"denied"`
}

func (c *RuleCount) count(denied bool) {
	c.Events++
	if denied {
		c.Denied++
	} else {
		c.Allowed++
	}
}
