package topkeys

import (
	"context"

	"github.com/stintdev/stint"
)

// Store is a [stint.Store] that counts the claims of another store in a sketch. It counts
// takes, admitted or not; peeks, refunds and shadows it does not count. A rule with several
// limits counts once for a request.
type Store struct {
	inner  stint.Store
	sketch *Sketch
}

// NewStore returns a store that counts and passes everything on to inner.
func NewStore(inner stint.Store, s *Sketch) *Store { return &Store{inner, s} }

// Take implements [stint.Store].
func (s *Store) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	if weight := s.sketch.weight.Load(); c.Cost > 0 && pick(int(weight)) == 0 && c.Limit.Valid() {
		s.sketch.count(&c, weight)
	}
	return s.inner.Take(ctx, c)
}

// TakeGroups implements [stint.Store]. It divides the claims of the call into blocks of
// weight claims, over the bounds of groups. A fixed step instead of a random place in each
// block would fall on the same claim of every group where the groups are alike.
func (s *Store) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	weight := int(s.sketch.weight.Load())
	block, next := 0, pick(weight) // where the block and its counted claim are, from the group on
	for i := range groups {
		claims := groups[i].Claims
		for next < len(claims) {
			if c := &claims[next]; c.Cost > 0 && c.Limit.Valid() && (next == 0 || !together(&claims[next-1], c)) {
				s.sketch.count(c, int64(weight))
			}
			block += weight
			next = block + pick(weight)
		}
		block, next = block-len(claims), next-len(claims)
	}
	return s.inner.TakeGroups(ctx, groups, out)
}

// together reports whether two adjacent claims are limits of one rule for one key.
func together(a, b *stint.Claim) bool {
	return a.Key == b.Key && a.Limit.Valid() && a.Limit.Rule() == b.Limit.Rule()
}
