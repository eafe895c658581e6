package adminapi

import (
	"sync"

	"github.com/stintdev/stint/rule"
)

// tiersBody is the tiers in force.
type tiersBody struct {
	Tiers []tierBody `json:"tiers"`
}

// tierBody is one tier.
type tierBody struct {
	Name string `json:"name"`
	// Text is the tier as its file says it, in JSON.
	Text string `json:"text,omitempty"`
	// Rules is the number of rules that have a limit for the tier, and Limits the first of them.
	Rules  int         `json:"rules"`
	Limits []tierLimit `json:"limits"`
}

// tierLimit is what a rule grants to callers of a tier.
type tierLimit struct {
	Rule  string `json:"rule"`
	Words string `json:"words"`
}

// mostTierLimits bounds the limits of a tier in an answer: every rule may have one.
const mostTierLimits = 10

// tiersOfSet are the tiers of one set, made once: they need the files to be parsed.
type tiersOfSet struct {
	mu   sync.Mutex
	of   *rule.Set // guarded by mu
	body tiersBody // guarded by mu; its elements do not change
}

// tierList answers GET /v1/tiers with the declared tiers and what the rules grant to them.
func (a *API) tierList(r *request) (any, error) {
	set, on := a.Rules.Current()
	rules, err := a.inWords(r.Context(), set)
	if err != nil {
		return nil, err
	}
	if err := a.reading.take(r.Context()); err != nil {
		return nil, err
	}
	defer a.reading.end()
	a.tiers.mu.Lock()
	defer a.tiers.mu.Unlock()
	if a.tiers.of != set {
		a.tiers.of, a.tiers.body = set, tiersIn(set, on.Files, rules)
	}
	return a.tiers.body, nil
}

func tiersIn(set *rule.Set, files []rule.File, rules []ruleBody) tiersBody {
	declared := contentsOf(files)
	body, at := tiersBody{Tiers: []tierBody{}}, map[string]int{}
	for i, name := range set.Tiers() {
		one := tierBody{Name: name, Limits: []tierLimit{}}
		if declared.err == nil {
			one.Text, _ = declared.parts.Tier(name)
		}
		body.Tiers = append(body.Tiers, one)
		at[name] = i
	}
	for i := range rules {
		for _, l := range rules[i].Limits {
			n, known := at[l.Tier]
			if !known {
				continue
			}
			one := &body.Tiers[n]
			if one.Rules++; len(one.Limits) < mostTierLimits {
				one.Limits = append(one.Limits, tierLimit{rules[i].ID, l.Words})
			}
		}
	}
	return body
}
