package rule

import (
	"fmt"
	"strings"

	"github.com/stintdev/stint"
)

// Explanation says how a rule set decides a request, without the counts: which rules match
// it and why, and under which keys and limits they count it.
type Explanation struct {
	// List is the list that decides the request. Rules then count nothing.
	List List
	// Rules has every rule of the set in file order.
	Rules []Explained
}

// Explained says what one rule does with a request.
type Explained struct {
	Rule *Rule
	// Conditions are the conditions of the rule that were compared, up to and including the
	// first that does not hold. A rule without conditions has none.
	Conditions []Condition
	Matches    bool // every condition holds, and the mode is not off
	// Uncounted is why a rule that matches does not count the request, as a sentence; ""
	// if it counts it. Denies says that the rule then denies the request.
	Uncounted string
	Denies    bool
	Key       string // that is counted; [KeyText] makes it readable
	// Missing are the attributes of the identity that the request does not have. The key has
	// substitutes for them.
	Missing []string
	Cost    int64
	Tier    string // of the rule, or of the request where the limits depend on it
	// Override is the key, glob or network of the override that replaces the limits of the
	// rule; "" if none does. Temporary says that it is one with an end.
	Override  string
	Temporary bool
	// Source is where the limits of the rule come from: "rule", "tier" or "defaults". The
	// parameters that an override sets replace them.
	Source string
	Limits []stint.Limit
}

// Condition is one condition of a rule and what a request has for it.
type Condition struct {
	Name  string // as in rule files, such as path_prefix
	Want  string // as in rule files
	Got   string // "" if the request has no such attribute
	Holds bool
}

// Explain says how the set decides a request. It charges nothing. The error is that of
// [Set.Decide] for a request whose cost or attributes are invalid.
func (s *Set) Explain(a Attributes, cost int64) (*Explanation, error) {
	q := s.borrow(a, cost)
	defer s.orZero().release(q)
	if q.plan(); q.err != nil {
		return nil, q.err
	}
	e := &Explanation{List: q.list}
	for _, r := range s.Rules() {
		x := Explained{Rule: r, Conditions: q.conditionsOf(r)}
		x.Matches = r.Mode != Off && r.match.match(q)
		switch {
		case !x.Matches:
		case q.listed(&r.lists.deny):
			x.Uncounted, x.Denies = "the request is on the deny list of the rule", true
		case q.list == ListNone:
			q.explain(r, &x)
		}
		e.Rules = append(e.Rules, x)
	}
	return e, nil
}

// explain describes what a rule that matches does with the request.
func (q *request) explain(r *Rule, x *Explained) {
	for _, s := range r.identity.by {
		if _, ok := q.get(s); !ok {
			x.Missing = append(x.Missing, q.set.slots.names[s])
		}
	}
	q.err = nil // of an earlier rule that cannot deny the request
	key, status := q.key(&r.identity)
	x.Key, x.Source, x.Tier = key, r.sourceOf(q), r.Tier
	if r.perTier {
		x.Tier = q.tierName()
	}
	x.Limits = q.limitsOf(r, key)
	if i, ok := q.overrideOf(r, &r.temporarily, key); ok {
		x.Override, x.Temporary = r.temporaries[i].key, true
	} else if i, ok := q.overrideOf(r, &r.overriddenBy, key); ok {
		x.Override = r.overrides[i].key
	}
	x.Cost, _ = q.costOf(r)
	switch {
	case len(x.Limits) == 0:
		x.Uncounted = "the rule has no limit for this request"
	case q.listed(&r.lists.allow):
		x.Uncounted = "the request is on the allow list of the rule"
	case r.denyAll:
		x.Uncounted, x.Denies = "the rule denies everything", true
	case status == denied:
		x.Uncounted, x.Denies = "the request has no "+strings.Join(x.Missing, ", ")+", and missing is deny", true
	case q.err != nil:
		x.Uncounted = q.err.Error()
	case status == skipped:
		x.Uncounted = "the request has no " + strings.Join(x.Missing, ", ") + ", and missing is skip"
	}
}

// sourceOf returns where the limits of the rule come from for this request.
func (r *Rule) sourceOf(q *request) string {
	t := 0
	if r.perTier {
		t = int(q.tierOf()) + 1
	}
	if t < len(r.sources) {
		return r.sources[t]
	}
	return "rule"
}

// tierName returns the tier of the request, or "".
func (q *request) tierName() string {
	if t := q.tierOf(); t != noTier {
		return q.set.tiers.names[t]
	}
	return ""
}

// conditionsOf compares the conditions of a rule one by one, in the order of match.
func (q *request) conditionsOf(r *Rule) (list []Condition) {
	for _, one := range r.match.parts(q.set) {
		c := Condition{Name: one.name, Want: one.want, Holds: one.match(q)}
		c.Got, _ = q.get(one.slot)
		if one.name == "tier" {
			c.Got = q.tierName()
		}
		if list = append(list, c); !c.Holds {
			return list
		}
	}
	return list
}

// Conditions returns the conditions of a rule of this set, with their names and what they want.
// A rule without conditions matches every request.
func (s *Set) Conditions(r *Rule) (list []Condition) {
	for _, one := range r.match.parts(s.orZero()) {
		list = append(list, Condition{Name: one.name, Want: one.want})
	}
	return list
}

// part is one condition alone, together with its form in rule files.
type part struct {
	conditions

	name, want string
	slot       slot
}

// parts returns the conditions that are set.
func (c *conditions) parts(s *Set) (list []part) {
	add := func(name, want string, slot slot, one conditions) {
		if name != "tier" {
			one.tier = noTier
		}
		list = append(list, part{one, name, want, slot})
	}
	if c.tier != noTier {
		add("tier", s.tiers.names[c.tier], slotTier, conditions{tier: c.tier})
	}
	if len(c.methods) > 0 {
		add("methods", strings.Join(c.methods, ", "), slotMethod, conditions{methods: c.methods})
	}
	if c.path != "" {
		add("path", c.path, slotPath, conditions{path: c.path, kept: pathForms{path: c.kept.path}})
	}
	if c.prefix != "" {
		add("path_prefix", c.prefix, slotPath, conditions{prefix: c.prefix, kept: pathForms{prefix: c.kept.prefix}})
	}
	if c.host != "" {
		add("host", c.host, slotHost, conditions{host: c.host})
	}
	if c.apiKey != nil {
		add("api_key_pattern", c.apiKey.text, slotAPIKey, conditions{apiKey: c.apiKey})
	}
	for i := range c.headers {
		h := &c.headers[i]
		add(s.slots.names[h.slot], h.glob.text, h.slot, conditions{headers: c.headers[i : i+1]})
	}
	if len(c.cidrs) > 0 {
		add("cidr", strings.Trim(fmt.Sprint(c.cidrs), "[]"), slotIP, conditions{cidrs: c.cidrs})
	}
	if c.regex != nil {
		add("endpoint_regex", c.regex.String(), slotPath, conditions{regex: c.regex})
	}
	return list
}
