package storetest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// The stores below are intentionally wrong, each in one way. See mutants.

// tampered is a right store with changes to the claims before each call and to
// the decisions after it.
type tampered struct {
	stint.Store
	claim    func(*stint.Claim)
	decision func(stint.Claim, *stint.Decision)
}

func (s tampered) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	var out [1]stint.Decision
	err := s.TakeGroups(ctx, []stint.Group{{Claims: []stint.Claim{c}}}, out[:])
	return out[0], err
}

func (s tampered) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	asked := storekit.MapClaims(groups, func(c *stint.Claim) {
		if s.claim != nil {
			s.claim(c)
		}
	})
	err := s.Store.TakeGroups(ctx, asked, out)
	at := 0
	for c := range storekit.Claims(groups) {
		if s.decision != nil && err == nil {
			s.decision(*c, &out[at])
		}
		at++
	}
	return err
}

func answering(change func(c stint.Claim, d *stint.Decision)) func(stint.Store, func() time.Time) stint.Store {
	return func(right stint.Store, _ func() time.Time) stint.Store {
		return tampered{Store: right, decision: change}
	}
}

func asking(change func(c *stint.Claim)) func(stint.Store, func() time.Time) stint.Store {
	return func(right stint.Store, _ func() time.Time) stint.Store { return tampered{Store: right, claim: change} }
}

// greedy charges a unit for a denial, if there is one.
type greedy struct{ stint.Store }

func (s *greedy) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	d, err := s.Store.Take(ctx, c)
	if err == nil && !d.Allowed {
		c.Cost = 1
		_, err = s.Store.Take(ctx, c)
	}
	return d, err
}

func (s *greedy) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	err := s.Store.TakeGroups(ctx, groups, out)
	for _, g := range groups {
		for _, c := range g.Claims {
			if len(groups) == 1 && err == nil && !out[0].Allowed {
				c.Cost, c.AnyOf = 1, 0
				_, err = s.Store.Take(ctx, c)
			}
		}
	}
	return err
}

// partial takes each claim of a group by itself; careful, it looks first.
type partial struct {
	stint.Store
	careful bool
}

func (s *partial) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	i := 0
	for _, g := range groups {
		if s.careful && s.denied(ctx, g) {
			return s.Store.TakeGroups(ctx, groups, out)
		}
		runtime.Gosched()
		for _, c := range g.Claims {
			var err error
			if out[i], err = s.Take(ctx, c); err != nil {
				return err
			}
			i++
		}
	}
	return nil
}

func (s *partial) denied(ctx context.Context, g stint.Group) bool {
	for _, c := range g.Claims {
		cost := c.Cost
		c.Cost = 0
		if d, err := s.Take(ctx, c); err != nil || d.Remaining < cost {
			return true
		}
	}
	return false
}

type shadowless struct{ stint.Store }

func (s *shadowless) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	var enforced []stint.Group
	for _, g := range groups {
		for i := range g.Parts() {
			enforced = append(enforced, stint.Group{Claims: g.Part(i), Dry: g.Dry})
		}
	}
	return s.Store.TakeGroups(ctx, enforced, out)
}

// wet ignores Dry.
type wet struct{ stint.Store }

func (s *wet) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	var charged []stint.Group
	for _, g := range groups {
		g.Dry = false
		charged = append(charged, g)
	}
	return s.Store.TakeGroups(ctx, charged, out)
}

// joint fails the groups of a call that have a wrong shadow, and their shadows.
type joint struct{ stint.Store }

func (s *joint) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	at, failed := 0, storekit.Errors{}
	for i := range groups {
		var wrong error
		for part := range groups[i].Parts() {
			wrong = errors.Join(wrong, validate(groups[i].Part(part)))
		}
		for range groups[i].Parts() {
			failed.Set(at, groups, wrong)
			at++
		}
	}
	if err := failed.Err(); err != nil {
		return err
	}
	return s.Store.TakeGroups(ctx, groups, out)
}

// resetting charges what remains when the limit of a key is another one.
type resetting struct {
	stint.Store
	limits map[string]stint.Limit
}

func (s *resetting) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	before, known := s.limits[c.Key]
	s.limits[c.Key] = c.Limit
	if known && before != c.Limit {
		all := c
		all.Cost, all.Extra = 0, stint.MaxCost
		if _, err := s.Store.Take(ctx, all); err != nil {
			return stint.Decision{}, err
		}
	}
	return s.Store.Take(ctx, c)
}

func (s *resetting) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	var err error
	out[0], err = s.Take(ctx, groups[0].Claims[0])
	return err
}

// slipping drops a state from the future.
type slipping struct {
	stint.Store
	clock func() time.Time
	seen  map[string]int64
}

func (s *slipping) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	if now := s.clock().UnixMicro(); c.Cost > 0 {
		if now < s.seen[c.Key] {
			forget := c
			forget.Cost = stint.Forget
			if _, err := s.Store.Take(ctx, forget); err != nil {
				return stint.Decision{}, err
			}
		}
		s.seen[c.Key] = now
	}
	return s.Store.Take(ctx, c)
}

func (s *slipping) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	var err error
	out[0], err = s.Take(ctx, groups[0].Claims[0])
	return err
}

// racy decides by a state that may be out of date when it charges.
type racy struct{ stint.Store }

func (s *racy) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	peek := c
	peek.Cost = 0
	d, err := s.Store.Take(ctx, peek)
	if err != nil || d.Remaining < c.Cost {
		return s.Store.Take(ctx, c)
	}
	runtime.Gosched()
	if _, err := s.Store.Take(ctx, c); err != nil {
		return d, err
	}
	d.Remaining -= c.Cost
	return d, nil
}

// stale decides all groups of a call as if each came first.
type stale struct{ stint.Store }

func (s *stale) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	for i := range groups {
		peek := groups[i].Claims[0]
		cost := peek.Cost
		peek.Cost = 0
		d, err := s.Take(ctx, peek)
		if err != nil {
			return err
		}
		d.Allowed = d.Remaining >= cost
		out[i] = d
	}
	return nil
}

type strict struct{ stint.Store }

func (s *strict) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	for _, g := range groups {
		for i := range g.Parts() {
			if err := validate(g.Part(i)); err != nil {
				return err
			}
		}
	}
	return s.Store.TakeGroups(ctx, groups, out)
}

// careless returns a denial in place of an error.
type careless struct{ stint.Store }

func (s *careless) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	d, _ := s.Store.Take(ctx, c)
	return d, nil
}

// renaming changes the Once of each group.
type renaming struct {
	stint.Store

	change func(*stint.Once) *stint.Once
}

func naming(change func(*stint.Once) *stint.Once) func(stint.Store, func() time.Time) stint.Store {
	return func(right stint.Store, _ func() time.Time) stint.Store { return &renaming{right, change} }
}

func (s *renaming) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	groups = slices.Clone(groups)
	for i := range groups {
		if groups[i].Once != nil {
			groups[i].Once = s.change(groups[i].Once)
		}
	}
	return s.Store.TakeGroups(ctx, groups, out)
}

// stubborn denies a group again whose ID it has denied.
type stubborn struct {
	stint.Store

	denied map[string]bool
}

func (s *stubborn) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	err := s.Store.TakeGroups(ctx, groups, out)
	if once := groups[0].Once; once != nil && err == nil {
		if s.denied[once.ID] = s.denied[once.ID] || !out[0].Allowed; s.denied[once.ID] {
			out[0].Allowed = false
		}
	}
	return err
}
