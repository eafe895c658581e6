package ruleedit

import (
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
}

// RuleInWords says in words what a rule does.
type RuleInWords struct {
	Rule string
	Mode string
	When []rule.Condition // only Name and Want; none: every request
	By   []string         // the attributes that it counts by
	// Limits has a text in Is for each tier that has limits of its own.
	Limits    []LimitChange
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
		}
		list = append(list, words)
	}
	return list
}

// LimitChanges compares the limits that are in force in two sets, with inherited values
// filled in: a new limit of a tier changes every rule that has its limit from the tier. It
// returns at most the given number of changes and the number of the others.
func LimitChanges(before, after *rule.Set, most int) (changes []LimitChange, others int) {
	order, was, is := []LimitChange{}, map[LimitChange]string{}, map[LimitChange]string{}
	for one, text := range everyKind(before) {
		order, was[one] = append(order, one), text
	}
	for one, text := range everyKind(after) {
		if _, known := was[one]; !known {
			order = append(order, one)
		}
		is[one] = text
	}
	for _, one := range order {
		if was[one] == is[one] {
			continue
		}
		if len(changes) == most {
			others++
			continue
		}
		one.Was, one.Is = was[one], is[one]
		changes = append(changes, one)
	}
	return changes, others
}

// everyKind visits each kind of request that a set counts, and its limits in words.
func everyKind(s *rule.Set) func(yield func(LimitChange, string) bool) {
	return func(yield func(LimitChange, string) bool) {
		for _, r := range s.Rules() {
			for _, e := range r.Effective(s) {
				if !yield(LimitChange{Rule: r.ID, Tier: e.Tier, Override: e.Override}, inWords(r, e.Limits)) {
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
	if r.Mode != rule.Enforce {
		text += " (mode " + r.Mode.String() + ")"
	}
	return text
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
