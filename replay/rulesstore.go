package replay

import (
	"context"
	"slices"

	"github.com/stintdev/stint"
)

// rulesStore lets rules decide events that give back. Rules know only what
// requests use: they are asked about a request that uses as much, so that one
// that says itself what a request costs claims that, and what they claim is
// turned here into giving back.
type rulesStore struct {
	stint.Store
	givesBack bool  // the event at hand does
	at        int64 // when that was taken; 0: now
}

// Take passes the claim on.
func (s *rulesStore) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	s.turn(&c)
	return s.Store.Take(ctx, c)
}

// TakeGroups passes the groups on.
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

// turn makes a claim give back what it would have taken.
func (s *rulesStore) turn(c *stint.Claim) {
	if s.givesBack {
		c.Cost, c.At = -c.Cost, s.at
	}
}
