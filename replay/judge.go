package replay

import (
	"context"

	"github.com/stintdev/stint"
)

// judge turns events into decisions, and counts them.
type judge interface {
	// decide decides an event at its time. An error of code CodeInvalid
	// says what is wrong with the event; any other ends the replay.
	decide(ctx context.Context, p *pending, v *verdict) error
	// perRule returns what each rule did.
	perRule() []RuleCount
}

// verdict is what a decision line tells, beside the event.
type verdict struct {
	rule, key string // of the deciding claim; empty without one
	decision  stint.Decision
}

// RuleCount is what one rule did. A rule in shadow mode denies nothing: its
// counts say what it would have done.
type RuleCount struct {
	Rule    string `json:"rule"` // its id; empty when a limit is replayed
	Mode    string `json:"mode"` // enforce or shadow
	Events  int64  `json:"events"`
	Allowed int64  `json:"allowed"`
	// Denied are the events whose denial this rule decided: of several that
	// would deny, the one with the longest wait.
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
