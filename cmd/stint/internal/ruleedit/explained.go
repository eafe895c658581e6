package ruleedit

import "github.com/stintdev/stint/rule"

// Explained is a [rule.Explanation] in JSON.
type Explained struct {
	List  string          `json:"list"` // none, allow or deny
	Rules []ExplainedRule `json:"rules"`
}

// ExplainedRule says what one rule does with a request.
type ExplainedRule struct {
	Rule       string      `json:"rule"`
	Mode       string      `json:"mode"`
	Matches    bool        `json:"matches"`
	Counts     bool        `json:"counts"`
	Denies     bool        `json:"denies"`
	Why        string      `json:"why,omitempty"` // it does not count a request that it matches
	Conditions []Condition `json:"conditions"`
	Key        string      `json:"key,omitempty"`
	By         []string    `json:"by,omitempty"`
	Missing    []string    `json:"missing,omitempty"`
	Cost       int64       `json:"cost,omitempty"`
	Limits     []string    `json:"limits,omitempty"`
	Source     string      `json:"source,omitempty"` // rule, tier or defaults
	Tier       string      `json:"tier,omitempty"`
	Override   string      `json:"override,omitempty"`
	Temporary  bool        `json:"temporary,omitempty"` // the override has an end
	Any        bool        `json:"any,omitempty"`       // one of the limits suffices
	Words      string      `json:"words,omitempty"`     // says the same as Limits
}

// Condition is a [rule.Condition] in JSON.
type Condition struct {
	Name  string `json:"name"`
	Want  string `json:"want"`
	Got   string `json:"got"`
	Holds bool   `json:"holds"`
}

// ExplainedOf returns the JSON of an explanation by a set.
func ExplainedOf(e *rule.Explanation, set *rule.Set) Explained {
	v := Explained{List: e.List.String(), Rules: []ExplainedRule{}}
	for i := range e.Rules {
		x := &e.Rules[i]
		r := ExplainedRule{
			Rule: x.Rule.ID, Mode: x.Rule.Mode.String(), Matches: x.Matches, Denies: x.Denies, Why: x.Uncounted, Conditions: []Condition{},
			Key: rule.KeyText(x.Key), Missing: x.Missing, Source: x.Source, Tier: x.Tier, Override: x.Override, Temporary: x.Temporary, Cost: x.Cost,
		}
		for _, c := range x.Conditions {
			r.Conditions = append(r.Conditions, Condition(c))
		}
		if x.Key != "" {
			r.By, r.Any, r.Counts = set.By(x.Rule), x.Rule.Any(), x.Uncounted == ""
			r.Words = sentence(x.Rule, x.Limits, r.By)
		}
		for _, l := range x.Limits {
			r.Limits = append(r.Limits, l.String())
		}
		v.Rules = append(v.Rules, r)
	}
	return v
}
