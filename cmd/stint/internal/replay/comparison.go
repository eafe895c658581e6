package replay

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// comparison decides every event by a second rule set, with counters of its own in memory. It
// counts the events that the two sets decide differently.
type comparison struct {
	set     *rule.Set
	store   rulesStore
	outcome rule.Outcome
	counts  Comparison
	byID    map[string]int // index in counts.PerRule
	line    int            // the first line of the series that has counts of a rule

	hasher       hasher
	newlyDenied  *ranking[identityText]
	newlyAllowed *ranking[identityText]
}

// Comparison is what changes for the recorded traffic when other rules replace those of the
// replay.
type Comparison struct {
	With         string  `json:"with"` // the name of the other rules
	Allowed      int64   `json:"allowed"`
	Denied       int64   `json:"denied"`
	ShareDenied  float64 `json:"share_denied"` // share of their events, 0 to 1
	NewlyDenied  int64   `json:"newly_denied"`
	NewlyAllowed int64   `json:"newly_allowed"`
	// Invalid counts the events that the other rules refuse to decide, such as by an
	// attribute that is not an address. They are not in the other counts.
	Invalid int64 `json:"invalid"`

	CallersNewlyDenied  int64 `json:"callers_newly_denied"`
	CallersNewlyAllowed int64 `json:"callers_newly_allowed"`

	PerRule []RuleChange `json:"per_rule"` // the rules of both sets, in file order

	TopNewlyDenied  []CallerChange `json:"top_newly_denied"`
	TopNewlyAllowed []CallerChange `json:"top_newly_allowed"`

	// The denied, newly denied and newly allowed events in the steps of [Report.OverTime].
	DeniedOverTime       []int64 `json:"denied_over_time"`
	NewlyDeniedOverTime  []int64 `json:"newly_denied_over_time"`
	NewlyAllowedOverTime []int64 `json:"newly_allowed_over_time"`
}

// RuleChange has the counts of the rules with one id in two sets. A denial counts for the
// rule whose answer it was.
type RuleChange struct {
	Rule         string `json:"rule"` // empty: a deny list
	Before       int64  `json:"denied_before"`
	After        int64  `json:"denied_after"`
	NewlyDenied  int64  `json:"newly_denied"`  // by the rule of the other set
	NewlyAllowed int64  `json:"newly_allowed"` // denied before by the rule of the first set

	// Before and After in the steps of [Report.OverTime].
	BeforeOverTime []int64 `json:"denied_before_over_time"`
	AfterOverTime  []int64 `json:"denied_after_over_time"`
}

// CallerChange is a caller with requests that are decided differently.
type CallerChange struct {
	Caller   string `json:"caller"`
	Requests int64  `json:"requests"`
	Changed  int64  `json:"changed"`
}

func newComparison(o *Options, h hasher, store stint.Store) *comparison {
	c := &comparison{set: o.Against, hasher: h, byID: map[string]int{}, newlyDenied: newRanking[identityText](), newlyAllowed: newRanking[identityText]()}
	c.store.Store = store
	c.counts.With = o.AgainstName
	for _, set := range []*rule.Set{o.Rules, o.Against} {
		for _, r := range set.Rules() {
			if r.Mode == rule.Enforce {
				c.rule(r.ID)
			}
		}
	}
	return c
}

// rule returns the counts of the rules with an id.
func (c *comparison) rule(id string) *RuleChange {
	i, known := c.byID[id]
	if !known {
		i = len(c.counts.PerRule)
		c.byID[id] = i
		c.counts.PerRule = append(c.counts.PerRule, RuleChange{Rule: id})
	}
	return &c.counts.PerRule[i]
}

// decide decides an event that was decided as before says. at are the counts of its time.
func (c *comparison) decide(ctx context.Context, e *plannedEvent, before *result, at []int64) error {
	if !before.decision.Allowed {
		c.rule(before.rule).Before++
		at[c.lineOf(before.rule)+ruleBefore]++
	}
	c.store.begin(e.cost, e.at)
	err := c.set.DecideInto(ctx, &c.store, &e.event, max(e.cost, -e.cost), &c.outcome)
	if invalid(err) {
		c.counts.Invalid++
		return nil
	}
	if err != nil {
		return err
	}
	allowed := c.outcome.Allowed()
	if allowed {
		c.counts.Allowed++
	} else {
		c.counts.Denied++
		c.rule(c.bindingRule()).After++
		at[lineDeniedAfter]++
		at[c.lineOf(c.bindingRule())+ruleAfter]++
	}
	switch {
	case before.decision.Allowed && !allowed:
		c.counts.NewlyDenied++
		c.rule(c.bindingRule()).NewlyDenied++
		c.change(c.newlyDenied, before.caller)
		at[lineNewlyDenied]++
	case !before.decision.Allowed && allowed:
		c.counts.NewlyAllowed++
		c.rule(before.rule).NewlyAllowed++
		c.change(c.newlyAllowed, before.caller)
		at[lineNewlyAllowed]++
	}
	return nil
}

// lines returns the number of lines in the series that the comparison needs. A deny list has
// lines even before its first denial.
func (c *comparison) lines() int {
	c.rule("")
	return linesOfRule * len(c.counts.PerRule)
}

// lineOf returns the first of the lines of a rule whose counts exist.
func (c *comparison) lineOf(id string) int { return c.line + linesOfRule*c.byID[id] }

// bindingRule returns the rule whose answer a denial was. It is empty for a deny list.
func (c *comparison) bindingRule() string {
	if c.outcome.Binding < 0 {
		return ""
	}
	return c.outcome.Hits[c.outcome.Binding].Rule.ID
}

func (c *comparison) change(callers *ranking[identityText], who identityText) {
	if text, first := callers.add(c.hasher.of(who)); first {
		*text = who
		text.text = strings.Clone(who.text)
	}
}

// report returns the counts, with the top callers.
func (c *comparison) report(top int, requests *keyCounts, s *series, show func(identityText) string) *Comparison {
	r := c.counts
	if n := r.Allowed + r.Denied; n > 0 {
		r.ShareDenied = float64(r.Denied) / float64(n)
	}
	r.PerRule = append([]RuleChange{}, r.PerRule...)
	for i := range r.PerRule {
		line := c.lineOf(r.PerRule[i].Rule)
		r.PerRule[i].BeforeOverTime, r.PerRule[i].AfterOverTime = s.line(line+ruleBefore), s.line(line+ruleAfter)
	}
	r.PerRule = slices.DeleteFunc(r.PerRule, func(one RuleChange) bool { return one.Rule == "" && one.Before+one.After == 0 })
	r.DeniedOverTime, r.NewlyDeniedOverTime, r.NewlyAllowedOverTime = s.line(lineDeniedAfter), s.line(lineNewlyDenied), s.line(lineNewlyAllowed)
	r.CallersNewlyDenied, r.CallersNewlyAllowed = int64(c.newlyDenied.counts.count), int64(c.newlyAllowed.counts.count)
	changes := func(of *ranking[identityText]) []CallerChange {
		all := of.sorted(func(a, b *ranked[identityText]) int { return cmp.Compare(a.of.text, b.of.text) })
		list := make([]CallerChange, 0, min(top, len(all)))
		for _, one := range all[:min(top, len(all))] {
			list = append(list, CallerChange{show(one.of), int64(requests.of(one.hash)), int64(one.count)})
		}
		return list
	}
	r.TopNewlyDenied, r.TopNewlyAllowed = changes(c.newlyDenied), changes(c.newlyAllowed)
	return &r
}

// invalid reports whether an error says that the event is invalid under a rule set.
func invalid(err error) bool {
	return err != nil && stint.CodeOf(err) == stint.CodeInvalid
}
