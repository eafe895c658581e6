package replay

import (
	"hash/maphash"
	"slices"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// Attribution says for which events a rule or one of its limits is responsible.
//
// One denial can be due to several rules. The caller gets the answer of only one of them, the
// one with the longest wait, so a count of answers hides the others. Sole says what changes
// at once if the rule is removed, and Alone what the rule does if the others are removed.
type Attribution struct {
	// Binding counts the denials whose answer this was. With the denials of deny lists they
	// add up to all denials. A rule in shadow mode has none.
	Binding int64 `json:"binding"`
	// Sole counts the events that only this denied, and Also those that others denied, too.
	// A rule in shadow mode counts here what it would have denied, compared with the
	// enforced rules.
	Sole int64 `json:"sole"`
	Also int64 `json:"also"`
	// Alone counts the events that this denies when it is the only rule, or the only limit.
	// It is -1 without [Options.Alone], and with retries.
	Alone int64 `json:"alone"`
}

// RuleCount has the counts of one rule. A rule in shadow mode denies nothing; its counts are
// what it would have done.
type RuleCount struct {
	Rule    string `json:"rule"` // id of the rule; empty when a limit is replayed
	Mode    string `json:"mode"` // enforce or shadow
	Events  int64  `json:"events"`
	Allowed int64  `json:"allowed"`
	Denied  int64  `json:"denied"` // Sole and Also together

	Attribution

	Limits []LimitCount `json:"limits,omitempty"` // if the rule has several

	// The events that this rule counted, and those that it denied, in the steps of
	// [Report.OverTime].
	EventsOverTime []int64 `json:"events_over_time"`
	DeniedOverTime []int64 `json:"denied_over_time"`
}

// LimitCount has the counts of one limit of a rule.
type LimitCount struct {
	Limit string `json:"limit"` // its name, and its numbers for most requests

	Attribution

	name   string
	number int // among the limits of all rules
}

// attribution counts for each rule which events it denied. It belongs to one replay.
type attribution struct {
	numbers map[*rule.Rule]int // index in counts
	counts  []RuleCount
	limits  int         // number of the limits of rules with several
	alone   *aloneJudge // nil: Alone is not asked for, or follows from the other counts
	asked   bool        // Alone is asked for
	seed    maphash.Seed
	recent  [8]numbered // the latest rule at each place
	judged  []judged    // what each rule says of the current event
	counted []int       // the rules that counted the current event, as indexes of counts
	denied  []int       // those of them that denied it
}

// numbered is a rule and its index in counts.
type numbered struct {
	rule   *rule.Rule
	number int
}

// judged is what a rule says of an event.
type judged struct {
	number int // index in counts
	hits   []rule.Hit
	denied bool   // the rule denies the event by itself
	hash   uint64 // of the key, which the hits share
}

// newAttribution returns the counts of a set. together is the memory store that decides by the
// set, or nil if another store does. Keys are hashed under the seed.
func newAttribution(set *rule.Set, seed maphash.Seed, alone bool, together *stint.Memory) *attribution {
	a := &attribution{numbers: map[*rule.Rule]int{}, seed: seed, asked: alone}
	for _, r := range set.Rules() {
		if r.Mode == rule.Off {
			continue
		}
		a.numbers[r] = len(a.counts)
		limits := limitsOf(set, r)
		for i := range limits {
			limits[i].number = a.limits + i
		}
		a.limits += len(limits)
		a.counts = append(a.counts, RuleCount{Rule: r.ID, Mode: r.Mode.String(), Limits: limits})
	}
	if alone && (a.limits > 0 || len(a.counts) > 1) {
		a.alone = newAloneJudge(set, a, together)
	}
	return a
}

// limitsOf returns a count for each name of the rule's limits, or nil if there is only one.
// The limits of tiers and overrides that differ only in their numbers have the same name.
func limitsOf(set *rule.Set, r *rule.Rule) (counts []LimitCount) {
	for _, e := range r.Effective(set) {
		for _, l := range e.Limits {
			if !slices.ContainsFunc(counts, func(c LimitCount) bool { return c.name == l.Name() }) {
				counts = append(counts, LimitCount{Limit: l.String(), name: l.Name()})
			}
		}
	}
	if len(counts) < 2 {
		return nil
	}
	return counts
}

// limit returns the count of a limit, or nil if the rule has only one limit.
func (c *RuleCount) limit(l stint.Limit) *LimitCount {
	for i := range c.Limits {
		if c.Limits[i].name == l.Name() {
			return &c.Limits[i]
		}
	}
	return nil
}

// judge finds what each rule says of a decided event.
func (a *attribution) judge(hits []rule.Hit) {
	a.judged = a.judged[:0]
	for of := range byRule(hits) {
		n, known := a.numberOf(of[0].Rule, len(a.judged))
		if known {
			a.judged = append(a.judged, judged{n, of, denies(of), maphash.String(a.seed, of[0].Key)})
		}
	}
}

// numberOf returns the index in counts of the rule at a place. Most events have the same rules at
// the same places as the event before.
func (a *attribution) numberOf(r *rule.Rule, place int) (n int, known bool) {
	recent := &a.recent[place%len(a.recent)]
	if recent.rule == r {
		return recent.number, true
	}
	if n, known = a.numbers[r]; known {
		*recent = numbered{r, n}
	}
	return n, known
}

// count counts a decided event.
func (a *attribution) count(o *rule.Outcome) {
	a.judge(o.Hits)
	a.counted, a.denied = a.counted[:0], a.denied[:0]
	rules, limits := 0, 0
	if !o.Decision.Allowed {
		rules, limits = a.enforcedDenials()
	}
	for i := range a.judged {
		of := &a.judged[i]
		c := &a.counts[of.number]
		c.Events++
		a.counted = append(a.counted, of.number)
		if !of.denied {
			c.Allowed++
			continue
		}
		c.Denied++
		a.denied = append(a.denied, of.number)
		c.share(rules, of.hits[0].Shadow)
		for h := range of.hits {
			hit := &of.hits[h]
			if l := c.limit(hit.Limit); l != nil && !hit.Decision.Allowed {
				l.share(limits, hit.Shadow)
			}
		}
	}
	if o.Binding >= 0 && !o.Allowed() {
		binding := &o.Hits[o.Binding]
		c := &a.counts[a.numbers[binding.Rule]]
		c.Binding++
		if l := c.limit(binding.Limit); l != nil {
			l.Binding++
		}
	}
}

// share counts a denial, given how many enforced rules or limits denied the event.
func (a *Attribution) share(enforced int, shadow bool) {
	if enforced == 0 || !shadow && enforced == 1 {
		a.Sole++
	} else {
		a.Also++
	}
}

// byRule yields the hits of one rule after the other.
func byRule(hits []rule.Hit) func(yield func([]rule.Hit) bool) {
	return func(yield func([]rule.Hit) bool) {
		for len(hits) > 0 {
			r := hits[0].Rule
			end := slices.IndexFunc(hits, func(h rule.Hit) bool { return h.Rule != r })
			if end < 0 {
				end = len(hits)
			}
			if !yield(hits[:end]) {
				return
			}
			hits = hits[end:]
		}
	}
}

// denies reports whether the rule of these hits denies the event by itself.
func denies(hits []rule.Hit) bool {
	denied := 0
	for i := range hits {
		if !hits[i].Decision.Allowed {
			denied++
		}
	}
	if hits[0].Rule.Any() {
		return denied == len(hits)
	}
	return denied > 0
}

// enforcedDenials returns how many enforced rules deny the event, and how many of their
// limits.
func (a *attribution) enforcedDenials() (rules, limits int) {
	for i := range a.judged {
		of := &a.judged[i]
		if of.hits[0].Shadow || !of.denied {
			continue
		}
		rules++
		for h := range of.hits {
			if !of.hits[h].Decision.Allowed {
				limits++
			}
		}
	}
	return rules, limits
}

// perRule returns the counts.
func (a *attribution) perRule() []RuleCount {
	for i := range a.counts {
		c := &a.counts[i]
		switch {
		case !a.asked:
			c.Alone = -1
			for j := range c.Limits {
				c.Limits[j].Alone = -1
			}
		case len(a.counts) == 1: // the only rule
			c.Alone = c.Denied
		}
	}
	return a.counts
}
