package topkeys

import (
	"context"
	"errors"

	"github.com/stintdev/stint"
)

// Store is a [stint.Store] that counts the claims of another store in a sketch. It counts
// takes, denied or not; peeks and refunds it does not count, and shadows apart, in [Shadows]. A claim that the store
// could not decide counts as allowed, as it is by default. A rule with several limits counts
// once for a request, and denies it if one of them does.
type Store struct {
	inner   stint.Store
	sketch  *Sketch
	shadows *Shadows // nil: shadows are not counted
}

// NewStore returns a store that counts and passes everything on to inner.
func NewStore(inner stint.Store, s *Sketch, shadows *Shadows) *Store {
	return &Store{inner, s, shadows}
}

// Take implements [stint.Store].
func (s *Store) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	d, err := s.inner.Take(ctx, c)
	if weight := s.sketch.weight.Load(); c.Cost > 0 && pick(int(weight)) == 0 && c.Limit.Valid() {
		table := allowed
		if err == nil && !d.Allowed {
			table = denied
		}
		s.sketch.count(&c, weight, table)
	}
	return d, err
}

// TakeGroups implements [stint.Store].
func (s *Store) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	err := s.inner.TakeGroups(ctx, groups, out)
	s.count(groups, out, err)
	return err
}

// count counts the claims of groups. It divides them into blocks of weight claims, over the
// bounds of groups. A fixed step instead of a random place in each block would fall on the
// same claim of every group where the groups are alike.
func (s *Store) count(groups []stint.Group, out []stint.Decision, err error) {
	some, isSome := errors.AsType[*stint.GroupsError](err)
	valid := err == nil || isSome // the decisions, but for the parts of some.Errs
	weight := int(s.sketch.weight.Load())
	block, next := 0, pick(weight) // where the block and its counted claim are, from the group on
	part, at := 0, 0               // of the group, in the order of decisions
	for i := range groups {
		g := &groups[i]
		decided := valid && (!isSome || some.Errs[part] == nil)
		for next < len(g.Claims) {
			if c := &g.Claims[next]; !g.Dry && c.Cost > 0 && c.Limit.Valid() && (next == 0 || !together(&g.Claims[next-1], c)) {
				table := allowed
				if decided && denies(g.Claims[next:], out[at+next:]) {
					table = denied
				}
				s.sketch.count(c, int64(weight), table)
			}
			block += weight
			next = block + pick(weight)
		}
		block, next = block-len(g.Claims), next-len(g.Claims)
		at += len(g.Claims)
		for j, claims := range g.Shadows {
			if s.shadows != nil && valid && !g.Dry && (!isSome || some.Errs[part+1+j] == nil) {
				s.shadows.count(claims, out[at:at+len(claims)])
			}
			at += len(claims)
		}
		part += g.Parts()
	}
}

// denies reports whether a limit of the first claim's rule denies its key.
func denies(claims []stint.Claim, out []stint.Decision) bool {
	for i := range claims {
		if i > 0 && !together(&claims[i-1], &claims[i]) {
			return false
		}
		if !out[i].Allowed {
			return true
		}
	}
	return false
}

// together reports whether two adjacent claims are limits of one rule for one key.
func together(a, b *stint.Claim) bool {
	return a.Key == b.Key && a.Limit.Valid() && a.Limit.Rule() == b.Limit.Rule()
}
