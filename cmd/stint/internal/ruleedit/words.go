package ruleedit

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// LimitChange says in words what changes for one kind of request of a rule. Was is empty
// for a new rule, Is for a removed one.
type LimitChange struct {
	Rule     string `json:"rule"`
	Tier     string `json:"tier,omitempty"`
	Override string `json:"override,omitempty"` // the key, pattern or network
	Was      string `json:"was"`                // such as "500/m"
	Is       string `json:"is"`
	// WasWords and IsWords say the same in whole sentences. Only [LimitChanges] fills them.
	WasWords string `json:"was_words,omitempty"`
	IsWords  string `json:"is_words,omitempty"`
}

// RuleInWords says in words what a rule does.
type RuleInWords struct {
	Rule string
	Mode string
	When []rule.Condition // only Name and Want; none: every request
	By   []string         // the attributes that it counts by
	// Limits has a text in Is for each tier that has limits of its own.
	Limits []LimitChange
	// Sentences says the same as Limits, in whole sentences.
	Sentences []string
	Overrides int // number of kinds of requests whose limits an override replaces
}

// InWords says in words what the rules of a set do. It names no override: there can be
// thousands, and their keys can be credentials.
func InWords(s *rule.Set) (list []RuleInWords) {
	for _, r := range s.Rules() {
		words := RuleInWords{Rule: r.ID, Mode: r.Mode.String(), When: s.Conditions(r), By: s.By(r)}
		for _, e := range r.Effective(s) {
			if e.Override != "" {
				words.Overrides++
				continue
			}
			words.Limits = append(words.Limits, LimitChange{Rule: r.ID, Tier: e.Tier, Is: inWords(r, e.Limits)})
			words.Sentences = append(words.Sentences, sentence(r, e.Limits, words.By))
		}
		list = append(list, words)
	}
	return list
}

// sentence says in words what the limits of a rule grant, such as "100 a minute for each API key,
// bursts to 200".
func sentence(r *rule.Rule, limits []stint.Limit, by []string) string {
	switch {
	case r.DenyAll():
		return "denies all"
	case len(limits) == 0:
		return "not counted"
	}
	joint := ", and "
	if r.Any() {
		joint = ", or "
	}
	texts := make([]string, len(limits))
	for i, l := range limits {
		texts[i] = grantInWords(l, byInWords(by))
	}
	return strings.Join(texts, joint) + storeInWords(r)
}

// LimitInWords says in words what a limit of a rule that counts by the given attributes grants.
// Without attributes the limit is that of a key which its caller brings.
func LimitInWords(l stint.Limit, by []string) string {
	if by == nil {
		return grantInWords(l, "for the key")
	}
	return grantInWords(l, byInWords(by))
}

// byInWords returns the callers that a rule counts, such as "for each API key and path".
func byInWords(by []string) string {
	if len(by) == 0 {
		return "for all callers together"
	}
	names := map[string]string{"api_key": "API key", "ip": "address"}
	texts := make([]string, len(by))
	for i, name := range by {
		texts[i] = cmp.Or(names[name], strings.Replace(name, ":", " ", 1))
	}
	return "for each " + strings.Join(texts, " and ")
}

// grantInWords returns a limit in words. whom is the text of byInWords.
func grantInWords(l stint.Limit, whom string) string {
	s := l.Spec()
	every, span := "in "+spanInWords(s.Window), spanInWords(s.Window)
	switch s.Window {
	case time.Second:
		every, span = "a second", "second"
	case time.Minute:
		every, span = "a minute", "minute"
	case time.Hour:
		every, span = "an hour", "hour"
	case 24 * time.Hour:
		every, span = "a day", "day"
	}
	n := strconv.FormatInt(s.Limit, 10)
	switch l.Algorithm() {
	case stint.TokenBucket, stint.GCRA:
		if s.RefillRate != "" {
			n, every = s.RefillRate, "a second"
		}
		text := n + " " + every + " " + whom
		if l.Max() != s.Limit {
			text += ", bursts to " + strconv.FormatInt(l.Max(), 10)
		}
		return text
	case stint.FixedWindow:
		return n + " " + every + " " + whom + ", in windows that begin at fixed times"
	case stint.SlidingWindowLog:
		return n + " in any " + span + " " + whom
	case stint.SlidingWindowCounter:
		return "about " + n + " in any " + span + " " + whom
	case stint.LeakyBucket:
		return n + " " + every + " " + whom + ", evenly spaced" + queueInWords(s)
	case stint.Quota:
		return n + " in each " + s.Period + " " + whom + calendarInWords(s)
	}
	return l.String() + " " + whom
}

// queueInWords says what may wait in a leaky bucket, such as ", 3 may wait for at most 2s".
func queueInWords(s stint.Spec) string {
	switch {
	case s.Queue == 0:
		return ""
	case s.MaxWait == 0:
		return ", " + strconv.FormatInt(s.Queue, 10) + " may wait"
	}
	return ", " + strconv.FormatInt(s.Queue, 10) + " may wait for at most " + spanInWords(s.MaxWait)
}

// calendarInWords says when the periods of a quota begin, if they do not begin by UTC.
func calendarInWords(s stint.Spec) string {
	switch {
	case s.Anchor != "":
		return ", counted from " + s.Anchor
	case s.UTCOffset != "":
		return ", by the time of UTC" + s.UTCOffset
	}
	return ""
}

// spanInWords returns a duration without the units that are 0, and whole days as such.
func spanInWords(d time.Duration) string {
	if day := 24 * time.Hour; d > day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + " days"
	}
	text := d.String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}

// LimitChanges compares the limits that are in force in two sets, with inherited values
// filled in: a new limit of a tier changes every rule that has its limit from the tier. It
// returns at most the given number of changes and the number of the others.
func LimitChanges(before, after *rule.Set, most int) (changes []LimitChange, others int) {
	order, was, is := []LimitChange{}, map[LimitChange]granted{}, map[LimitChange]granted{}
	for one, has := range everyKind(before) {
		order, was[one] = append(order, one), has
	}
	for one, has := range everyKind(after) {
		if _, known := was[one]; !known {
			order = append(order, one)
		}
		is[one] = has
	}
	for _, one := range order {
		if was[one].text == is[one].text {
			continue
		}
		if len(changes) == most {
			others++
			continue
		}
		old, now := was[one], is[one]
		one.Was, one.Is = old.text, now.text
		one.WasWords, one.IsWords = old.sentence(before), now.sentence(after)
		changes = append(changes, one)
	}
	return changes, others
}

// granted is what a rule grants to one kind of request.
type granted struct {
	rule   *rule.Rule // nil: the set has no such rule
	limits []stint.Limit
	text   string // the short form
}

// sentence says in words what a rule of a set grants, and its mode unless it is enforced.
func (g granted) sentence(s *rule.Set) string {
	if g.rule == nil {
		return ""
	}
	return sentence(g.rule, g.limits, s.By(g.rule)) + modeInWords(g.rule)
}

// everyKind visits each kind of request that a set counts, and what it is granted.
func everyKind(s *rule.Set) func(yield func(LimitChange, granted) bool) {
	return func(yield func(LimitChange, granted) bool) {
		for _, r := range s.Rules() {
			for _, e := range r.Effective(s) {
				if !yield(LimitChange{Rule: r.ID, Tier: e.Tier, Override: e.Override}, granted{r, e.Limits, inWords(r, e.Limits)}) {
					return
				}
			}
		}
	}
}

func inWords(r *rule.Rule, limits []stint.Limit) string {
	texts := make([]string, len(limits))
	for i, l := range limits {
		texts[i] = limitInWords(l)
	}
	text := strings.Join(texts, " and ")
	switch {
	case r.DenyAll():
		text = "denies all"
	case len(limits) == 0:
		text = "not counted"
	case r.Any():
		text = strings.Join(texts, " or ")
	}
	return text + storeInWords(r) + modeInWords(r)
}

// storeInWords returns the store that counts a rule, unless it is the default one or the rule
// counts nothing.
func storeInWords(r *rule.Rule) string {
	if r.Store == "" || r.DenyAll() {
		return ""
	}
	return " (store " + r.Store + ")"
}

func modeInWords(r *rule.Rule) string {
	if r.Mode == rule.Enforce {
		return ""
	}
	return " (mode " + r.Mode.String() + ")"
}

// limitInWords returns the short form of a limit, such as 500/m, if it has one. Otherwise it
// returns every number of the limit.
func limitInWords(l stint.Limit) string {
	units := map[time.Duration]string{time.Second: "s", time.Minute: "m", time.Hour: "h", 24 * time.Hour: "d"}
	s := l.Spec()
	unit := units[s.Window]
	if l.Algorithm() != stint.TokenBucket || unit == "" || s.Limit == 0 || l.Max() != s.Limit || s.RefillRate != "" {
		return l.String()
	}
	return strconv.FormatInt(s.Limit, 10) + "/" + unit
}
