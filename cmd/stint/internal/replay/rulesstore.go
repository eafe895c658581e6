package replay

import (
	"context"
	"slices"

	"github.com/stintdev/stint"
)

// rulesStore lets rules decide refunds. Rules know only positive costs, also
// where a rule sets its own cost. A refund is therefore decided as a request
// with the positive cost, and rulesStore negates the cost of its claims.
type rulesStore struct {
	stint.Store
	givesBack bool  // whether the current event is a refund
	at        int64 // when the cost was taken; 0: now
}

// Take passes the claim to the store.
func (s *rulesStore) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	s.turn(&c)
	return s.Store.Take(ctx, c)
}

// TakeGroups passes the groups to the store.
func (s *rulesStore) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if !s.givesBack {
		return s.Store.TakeGroups(ctx, groups, out)
	}
	turned := slices.Clone(groups)
	for i := range turned {
		turned[i].Claims = slices.Clone(turned[i].Claims)
		for c := range turned[i].Claims {
			s.turn(&turned[i].Claims[c])
		}
	}
	return s.Store.TakeGroups(ctx, turned, out)
}

// turn makes a claim of a refund event a refund.
func (s *rulesStore) turn(c *stint.Claim) {
	if s.givesBack {
		c.Cost, c.At = -c.Cost, s.at
	}
}
