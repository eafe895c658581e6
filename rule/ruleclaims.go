package rule

import (
	"fmt"
	"strings"

	"github.com/stintdev/stint"
)

// By returns the attributes that name the identity of a rule of this set.
func (s *Set) By(r *Rule) []string {
	names := make([]string, len(r.identity.by))
	for i, slot := range r.identity.by {
		names[i] = s.slots.names[slot]
	}
	return names
}

// Rule returns the rule of an id, nil when the set has none.
func (s *Set) Rule(id string) *Rule {
	for _, r := range s.rules {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// RuleClaims returns what a rule asks of a store for a request, whether or not
// it matches the request: a claim of the given cost for each limit, with the
// numbers that this caller has, and for those of its penalty. It is for looking
// at, and mending, what is kept for one caller. The error, a [*stint.Error],
// says which attribute is missing.
func (s *Set) RuleClaims(r *Rule, a Attributes, cost int64) ([]stint.Claim, error) {
	q := s.borrow(a, cost)
	defer s.release(q)
	key, v := q.key(&r.identity)
	if q.err != nil {
		return nil, q.err
	}
	if v != counted {
		return nil, &stint.Error{Code: stint.CodeInvalid, Problem: fmt.Sprintf("rule %s does not count such a request", r.ID),
			Mend: "say its " + strings.Join(s.By(r), ", ")}
	}
	var claims []stint.Claim
	for _, l := range q.limitsOf(r, key) {
		claims = append(claims, stint.Claim{Key: key, Limit: l, Cost: cost, Policy: r.Policy})
	}
	if r.Penalty != nil && len(claims) > 0 {
		for _, l := range r.Penalty.Limits() {
			claims = append(claims, stint.Claim{Key: key, Limit: l, Cost: cost})
		}
	}
	return claims, nil
}

// RuleList returns the list that a request is on when the rule matches it: the
// list of all rules, or the rule's own. Who is on several is on the deny list.
func (s *Set) RuleList(r *Rule, a Attributes) List {
	q := s.borrow(a, 0)
	defer s.release(q)
	if q.listed(&s.lists.deny) || q.deniedByRule(r) {
		return ListDeny
	}
	return listIf(q.listed(&s.lists.allow) || q.listedByRule(r))
}
