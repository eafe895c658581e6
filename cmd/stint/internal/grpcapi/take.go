package grpcapi

import (
	"context"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
)

// take is what Take, Peek, GiveBack and Reset have in common: a key under some limits.
type take struct {
	key       string
	limits    []*stintv1.Limit
	cost      int64
	extra, at int64
	forget    bool // forget the key; cost is then unused
	onFailure stintv1.OnStoreFailure
}

func takeOf(m *stintv1.TakeRequest) take {
	t := take{key: m.GetKey(), limits: m.GetLimits(), cost: 1, extra: m.GetExtra(), at: m.GetAtUs(), onFailure: m.GetOnStoreFailure()}
	if m.Cost != nil {
		t.cost = m.GetCost()
	}
	return t
}

// appendClaims appends one claim for each limit.
func (t *take) appendClaims(s *Service, claims []stint.Claim) ([]stint.Claim, error) {
	policy, err := t.check()
	if err != nil {
		return nil, err
	}
	for i, l := range t.limits {
		limit, err := s.limit(l, i)
		if err != nil {
			return nil, err
		}
		claims = append(claims, stint.Claim{Key: t.key, Limit: limit, Cost: t.cost, Extra: t.extra, At: t.at, Policy: policy})
		if t.forget {
			claims[len(claims)-1].Cost = stint.Forget
		}
	}
	return claims, nil
}

// check validates everything except the limits.
func (t *take) check() (p stint.Policy, err error) {
	if err := stint.ValidateKey(t.key); err != nil {
		return p, err
	}
	switch n := len(t.limits); {
	case n == 0 || n > maxLimits:
		return p, badRequest("limits: has %d entries (give 1 to %d)", n, maxLimits)
	case t.cost < -stint.MaxCost || t.cost > stint.MaxCost:
		return p, badRequest("cost: %d is out of range (use %d to %d)", t.cost, -stint.MaxCost, stint.MaxCost)
	case t.at != 0 && t.cost >= 0:
		return p, badRequest("at_us: belongs to a cost below 0, as the at_us of the decision that it gives back")
	case t.onFailure < 0 || t.onFailure > stintv1.OnStoreFailure_ON_STORE_FAILURE_LOCAL:
		return p, badRequest("on_store_failure: %d is not known", t.onFailure)
	}
	p.OnFailure = stint.OnFailure(max(1, t.onFailure) - 1)
	return p, nil
}

// Take decides a request of one key under the limits that the caller sends.
func (s *Service) Take(ctx context.Context, m *stintv1.TakeRequest) (*stintv1.TakeResponse, error) {
	t := takeOf(m)
	face, limits, err := s.takeOne(ctx, &t)
	if err != nil {
		return nil, err
	}
	return &stintv1.TakeResponse{Decision: face, Limits: limits}, nil
}

// Peek returns what a key has left, and charges nothing.
func (s *Service) Peek(ctx context.Context, m *stintv1.PeekRequest) (*stintv1.PeekResponse, error) {
	face, limits, err := s.takeOne(ctx, &take{key: m.GetKey(), limits: m.GetLimits()})
	if err != nil {
		return nil, err
	}
	return &stintv1.PeekResponse{Decision: face, Limits: limits}, nil
}

// GiveBack refunds what a take was charged.
func (s *Service) GiveBack(ctx context.Context, m *stintv1.GiveBackRequest) (*stintv1.GiveBackResponse, error) {
	cost := int64(1)
	if m.Cost != nil {
		cost = m.GetCost()
	}
	if cost < 1 || cost > stint.MaxCost {
		return nil, s.failed(ctx, badRequest("cost: %d is out of range (use 1 to %d)", cost, stint.MaxCost))
	}
	face, limits, err := s.takeOne(ctx, &take{key: m.GetKey(), limits: m.GetLimits(), cost: -cost, at: m.GetAtUs()})
	if err != nil {
		return nil, err
	}
	return &stintv1.GiveBackResponse{Decision: face, Limits: limits}, nil
}

// Reset forgets what a key has used. Only trusted callers may.
func (s *Service) Reset(ctx context.Context, m *stintv1.ResetRequest) (*stintv1.ResetResponse, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	if !s.trusted() {
		return nil, refuse("to forget a key")
	}
	if _, _, err := s.takeOne(ctx, &take{key: m.GetKey(), limits: m.GetLimits(), forget: true}); err != nil {
		return nil, err
	}
	return new(stintv1.ResetResponse), nil
}

// takeOne decides one take in a round of its own.
func (s *Service) takeOne(ctx context.Context, t *take) (*stintv1.Decision, []*stintv1.LimitDecision, error) {
	if err := s.admit(ctx); err != nil {
		return nil, nil, err
	}
	r := s.borrowRound()
	defer r.end()
	r.addTake(0, t)
	r.decide(ctx)
	claims, decisions, err := r.take(&r.items[0])
	if err != nil {
		return nil, nil, s.failed(ctx, err)
	}
	face, limits := s.taken(claims, decisions)
	return face, limits, nil
}

// taken counts a decision and writes it as messages.
func (s *Service) taken(claims []stint.Claim, decisions []stint.Decision) (*stintv1.Decision, []*stintv1.LimitDecision) {
	_, face := stint.Combine(claims, decisions)
	s.options.Taken(&face, claims[0].Policy.OnFailure)
	if len(claims) == 1 {
		return decision(&face), nil
	}
	limits := make([]*stintv1.LimitDecision, len(claims))
	for i := range claims {
		l := claims[i].Limit
		limits[i] = &stintv1.LimitDecision{Rule: l.Rule(), Name: l.Name(), Decision: decision(&decisions[i])}
	}
	return decision(&face), limits
}
