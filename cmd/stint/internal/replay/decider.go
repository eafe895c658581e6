package replay

import (
	"context"
	"fmt"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// decider decides events and counts the decisions.
type decider interface {
	// decide decides an event at its time. An error with CodeInvalid means that the
	// event is invalid; any other error ends the replay.
	decide(ctx context.Context, p *pending, out *result) error
	// perRule returns the counts of each rule.
	perRule() []RuleCount
}

// result is the part of a decision line that does not come from the event.
type result struct {
	rule, key string // rule and key of the binding claim; empty without one
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

// limitDecider decides every event by one limit. Events may change the limit's
// numbers.
type limitDecider struct {
	store  stint.Store
	limit  stint.Limit
	keys   *keyTally
	show   func(key string) string // the form of a key in a summary
	counts RuleCount
}

func newLimitDecider(store stint.Store, limit stint.Limit, by string, keys *keyTally) *limitDecider {
	d := &limitDecider{store: store, limit: limit, keys: keys, show: func(key string) string { return maskKey(rule.KeyText(key)) }}
	d.counts = RuleCount{Rule: limit.Rule(), Mode: rule.Enforce.String()}
	if !secretAttribute(by) {
		d.show = rule.KeyText
	}
	return d
}

func (d *limitDecider) decide(ctx context.Context, p *pending, out *result) (err error) {
	if p.limit.Valid() {
		d.limit = p.limit
	}
	out.rule, out.key = d.counts.Rule, rule.KeyText(p.text)
	out.decision, err = d.store.Take(ctx, stint.Claim{Key: p.text, Limit: d.limit, Cost: p.cost, At: p.at})
	if err != nil {
		return err
	}
	d.keys.see(p.text)
	d.counts.count(!out.decision.Allowed)
	if !out.decision.Allowed {
		d.keys.deny(p.text, d.show)
	}
	return nil
}

func (d *limitDecider) perRule() []RuleCount { return []RuleCount{d.counts} }

// limitReader compiles the changes of limit in events, once for each text. A
// change keeps the scope of the first limit, and its name unless the change has
// one, so the state of a key continues when only numbers change.
type limitReader struct {
	first stint.Limit
	known map[string]stint.Limit
}

// rememberedLimits is the number of cached texts.
const rememberedLimits = 1024

func (r *limitReader) read(text string) (stint.Limit, error) {
	if limit, ok := r.known[text]; ok {
		return limit, nil
	}
	limit, err := r.compile(text)
	if err != nil {
		return limit, err
	}
	if len(r.known) >= rememberedLimits {
		clear(r.known)
	}
	r.known[text] = limit
	return limit, nil
}

func (r *limitReader) compile(text string) (stint.Limit, error) {
	if text[0] != '{' && text[0] != '"' {
		return stint.Limit{}, fmt.Errorf(`limit: %.40s is not a limit (write an object, or a text such as "100/m")`, text)
	}
	spec, err := rule.ParseSpec([]byte(text))
	if err != nil {
		return stint.Limit{}, err
	}
	spec.Namespace, spec.Rule = r.first.Namespace(), r.first.Rule()
	if spec.Name == "" {
		spec.Name = r.first.Name()
	}
	return spec.Compile()
}
