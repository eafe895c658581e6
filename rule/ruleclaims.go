package rule

import (
	"fmt"
	"strings"

	"github.com/stintdev/stint"
)

// By returns the names of the attributes in the identity of a rule of this set.
func (s *Set) By(r *Rule) []string {
	names := make([]string, len(r.identity.by))
	for i, slot := range r.identity.by {
		names[i] = s.slots.names[slot]
	}
	return names
}

// Rule returns the rule with the id, or nil when the set has none.
func (s *Set) Rule(id string) *Rule {
	for _, r := range s.rules {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// RuleClaims returns the claims that a rule makes for a request, whether or not
// the rule matches the request: one claim of the given cost for each limit that
// applies to this caller and for each limit of the rule's penalty. Use it to
// inspect or correct the stored state of one caller. The error, a
// [*stint.Error], names the missing attribute.
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

// RuleList returns the list that applies to a request when the rule matches it:
// a list of the whole set or of the rule. The deny list wins over the allow
// list.
func (s *Set) RuleList(r *Rule, a Attributes) List {
	q := s.borrow(a, 0)
	defer s.release(q)
	if q.listed(&s.lists.deny) || q.deniedByRule(r) {
		return ListDeny
	}
	return listIf(q.listed(&s.lists.allow) || q.listed(&r.lists.allow))
}
