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
	if first, weight := s.sketch.skip(); first == 0 && c.Cost > 0 && c.Limit.Valid() {
		s.sketch.count(&c, int64(weight))
	}
	return s.inner.Take(ctx, c)
}

// TakeGroups implements [stint.Store].
func (s *Store) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	next, weight := s.sketch.skip()
	for i := range groups {
		claims := groups[i].Claims
		for ; next < len(claims); next += weight {
			if c := &claims[next]; c.Cost > 0 && c.Limit.Valid() && (next == 0 || !together(&claims[next-1], c)) {
				s.sketch.count(c, int64(weight))
			}
		}
		next -= len(claims)
	}
	return s.inner.TakeGroups(ctx, groups, out)
}

// together reports whether two adjacent claims are limits of one rule for one key.
func together(a, b *stint.Claim) bool {
	return a.Key == b.Key && a.Limit.Valid() && a.Limit.Rule() == b.Limit.Rule()
}
