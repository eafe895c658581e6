package stint

import "fmt"

// Group is a list of claims that are decided together: all are charged or none.
// A group without claims is admitted.
type Group struct {
	Claims []Claim

	// Shadows are lists of claims that observe the group. Each is decided after
	// the group, as a group of its own. It is charged if both the group and the
	// shadow are admitted. A shadow never changes the answer of the group, nor
	// that of another shadow.
	Shadows [][]Claim

	// Dry decides the group and its shadows, and charges nothing.
	Dry bool

	// Once, if not nil, lets the caller repeat the group without a second charge.
	Once *Once
}

// The parts of a group are the group itself and its shadows. The decisions and
// the errors of a call are in the order of the parts: each group, and then each
// of its shadows.

// Parts returns the number of parts of the group, at least 1.
func (g *Group) Parts() int { return 1 + len(g.Shadows) }

// Part returns the claims of a part: 0 is the group itself, and i above 0 is
// shadow i−1.
func (g *Group) Part(i int) []Claim {
	if i == 0 {
		return g.Claims
	}
	return g.Shadows[i-1]
}

// Sizes returns how many claims and parts the groups have. A call has one
// decision for each claim, and [GroupsError] one entry for each part.
func Sizes(groups []Group) (claims, parts int) {
	parts = len(groups)
	for i := range groups {
		g := &groups[i]
		claims += len(g.Claims)
		if len(g.Shadows) == 0 { // nearly always
			continue
		}
		parts += len(g.Shadows)
		for _, shadow := range g.Shadows {
			claims += len(shadow)
		}
	}
	return claims, parts
}

// ValidateClaims returns the error that every store returns for the claims of
// one part of a group, or nil. It is an error if a claim is invalid, or if two
// claims would charge the same state.
func ValidateClaims(claims []Claim) error {
	for i := range claims {
		if err := claims[i].Validate(); err != nil {
			return err
		}
	}
	return checkDistinct(claims)
}

// fewClaims is the greatest number of claims that checkDistinct compares pair by
// pair.
const fewClaims = 32

// checkDistinct refuses two claims on one state, because the answer to each would
// depend on the other. The claims must be valid.
func checkDistinct(claims []Claim) error {
	if len(claims) > fewClaims {
		return checkManyDistinct(claims)
	}
	for i := range claims {
		for j := range claims[:i] {
			if sameState(&claims[i], &claims[j]) {
				return stateTwice(j, i)
			}
		}
	}
	return nil
}

// checkManyDistinct is checkDistinct in linear time, by a map.
func checkManyDistinct(claims []Claim) error {
	type state struct {
		key, name, rule, namespace string
		fromCaller                 bool
	}
	seen := make(map[state]int, len(claims))
	for i := range claims {
		l := &claims[i].Limit.n.spec
		s := state{claims[i].Key, l.Name, l.Rule, l.Namespace, l.FromCaller}
		if j, ok := seen[s]; ok {
			return stateTwice(j, i)
		}
		seen[s] = i
	}
	return nil
}

// sameState reports whether two claims would charge one state: the same key
// under limits of the same scope. The numbers of the limits do not matter.
func sameState(a, b *Claim) bool {
	if a.Key != b.Key {
		return false
	}
	if a.Limit == b.Limit {
		return true
	}
	s, t := &a.Limit.n.spec, &b.Limit.n.spec
	return s.Name == t.Name && s.Rule == t.Rule && s.Namespace == t.Namespace && s.FromCaller == t.FromCaller
}

func stateTwice(i, j int) error {
	return invalid(fmt.Sprintf("group: claims %d and %d are of the same limit and key", i, j), "merge them and add their costs, or put them into groups of their own")
}

// GroupsError says which parts of the groups of one call have no decision, and
// why. The decisions of the other parts are valid. The error of a shadow is its
// own: the group and the other shadows are decided. The shadows of a group with
// an error are decided, and not charged.
//
// The zero value has no errors. Set is not safe for concurrent use.
type GroupsError struct {
	// Errs has one entry for each part of the groups, in order; nil for those
	// that are decided. [Sizes] counts the parts.
	Errs []error
}

// Error returns the first of the errors.
func (e *GroupsError) Error() string {
	for _, err := range e.Errs {
		if err != nil {
			return err.Error()
		}
	}
	return "no group failed"
}

// Unwrap returns the errors of the parts that failed.
func (e *GroupsError) Unwrap() []error { return e.Errs }
