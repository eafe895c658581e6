package storetest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/oracle"
	"github.com/stintdev/stint/storekit"
)

// modelStore is the exact model as a store. The suite must pass it.
type modelStore struct {
	clock   func() time.Time
	forgets bool // the store may lose any state at any time
	mu      sync.Mutex
	model   *oracle.Model
	calls   rememberedCalls
}

func openModel(_ *testing.T, clock func() time.Time) stint.Store {
	return &modelStore{clock: clock, model: oracle.New(), calls: rememberedCalls{}}
}

func openForgetful(_ *testing.T, clock func() time.Time) stint.Store {
	return &modelStore{clock: clock, forgets: true, model: oracle.New(), calls: rememberedCalls{}}
}

func (s *modelStore) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	return storekit.TakeOne(ctx, s, c)
}

func (s *modelStore) TakeGroups(_ context.Context, groups []stint.Group, out []stint.Decision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := storekit.CheckOut(groups, out); err != nil {
		return err
	}
	if s.forgets {
		s.model.ForgetIdle(s.clock().UnixMicro())
	}
	at, failed := 0, storekit.Errors{}
	for _, g := range groups {
		before, err := s.calls.recall(&g, s.clock().UnixMicro())
		if before != nil {
			g.Dry = true // its shadows are decided, and not charged
		}
		right := storekit.MapClaims([]stint.Group{g}, func(*stint.Claim) {})[0]
		for part := range g.Parts() {
			if part > 0 || err == nil {
				err = validate(g.Part(part))
			}
			failed.Set(at+part, groups, err)
			switch {
			case err == nil:
			case part == 0:
				right.Claims, right.Dry = nil, true
			default:
				right.Shadows[part-1] = nil
			}
		}
		decisions := s.model.TakeGroups(s.clock().UnixMicro(), []stint.Group{right})
		for part := range g.Parts() {
			own := out[:len(g.Part(part))]
			clear(own)
			decisions = decisions[copy(own, decisions[:len(right.Part(part))]):]
			out = out[len(own):]
			if part == 0 {
				copy(own, before)
				s.calls.remember(&g, own, s.clock().UnixMicro())
			}
		}
		at += g.Parts()
	}
	return failed.Err()
}

// rememberedCalls remembers groups by the ID of their Once.
type rememberedCalls map[string]rememberedCall

// recall returns the decisions of an earlier call of the group, or nil if there was none.
func (r rememberedCalls) recall(g *stint.Group, now int64) ([]stint.Decision, error) {
	if !g.Repeatable() {
		return nil, nil
	}
	if err := g.Once.Validate(); err != nil {
		return nil, err
	}
	if err := validate(g.Claims); err != nil {
		return nil, err
	}
	c, known := r[g.Once.ID]
	switch {
	case !known || !c.alive(now):
		return nil, nil
	case c.group.Digest() != g.Digest():
		return nil, storekit.OnceConflict()
	}
	again := slices.Clone(c.decisions)
	for i := range again {
		again[i].Repeated = true
	}
	return again, nil
}

// remember remembers the group if it is admitted.
func (r rememberedCalls) remember(g *stint.Group, decisions []stint.Decision, now int64) {
	if g.Repeatable() && decisions[0] != (stint.Decision{}) && !decisions[0].Repeated && admitted(g.Claims, decisions) {
		r[g.Once.ID] = rememberedCall{*g, slices.Clone(decisions), now}
	}
}

func validate(claims []stint.Claim) error {
	seen := map[stint.Claim]bool{}
	for _, c := range claims {
		forget := c.Cost == stint.Forget
		if c.Key == "" || !c.Limit.Valid() || c.Extra < 0 || c.Cost > stint.MaxCost || c.Cost < -stint.MaxCost && !forget || seen[c] {
			return &stint.Error{Code: stint.CodeInvalid, Problem: "wrong claim"}
		}
		seen[c] = true
	}
	return nil
}

func TestModelPasses(t *testing.T) {
	Suite{Open: openModel, Keeps: true}.Run(t)
}

func TestForgetfulModelPasses(t *testing.T) {
	Suite{Open: openForgetful, Runs: 40}.Run(t)
}

// TestRunsAreBounded checks that a suite of few short runs makes few calls.
func TestRunsAreBounded(t *testing.T) {
	var calls atomic.Int64
	Suite{Runs: 2, Steps: 3, Open: func(t *testing.T, clock func() time.Time) stint.Store {
		return tampered{Store: openModel(t, clock), claim: func(*stint.Claim) { calls.Add(1) }}
	}}.Run(t)
	// The storms make 16 · 20 calls of 3 claims for 7 algorithms, the tables
	// 500; the laws the rest.
	if n := calls.Load(); n > 12_000 {
		t.Errorf("%d claims", n)
	}
}
