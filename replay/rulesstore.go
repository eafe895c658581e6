package replay

import (
	"context"
	"slices"

	"github.com/stintdev/stint"
)

// rulesStore lets rules decide events that give back. Rules know only what
// requests use: they are asked about a cost of 0, and what they claim is
// turned here into giving back.
type rulesStore struct {
	stint.Store
	giveBack int64 // how much the event at hand gives back; 0: it does not
	at       int64 // when that was taken; 0: now
}

// Take passes the claim on.
func (s *rulesStore) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	s.turn(&c)
	return s.Store.Take(ctx, c)
}

// TakeGroups passes the groups on.
func (s *rulesStore) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if s.giveBack == 0 {
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

// turn makes a claim give back what the event says or, of a rule that says
// what every request costs, that.
func (s *rulesStore) turn(c *stint.Claim) {
	if s.giveBack == 0 {
		return
	}
	if c.Cost == 0 {
		c.Cost = s.giveBack
	}
	c.Cost, c.At = -c.Cost, s.at
}
