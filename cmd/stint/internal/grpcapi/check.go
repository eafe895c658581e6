package grpcapi

import (
	"context"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/rule"
)

// Check decides the request that the message describes, by the rules.
func (s *Service) Check(ctx context.Context, m *stintv1.CheckRequest) (*stintv1.CheckResponse, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	r := s.borrowRound()
	defer r.end()
	r.addCheckMessage(0, m)
	r.decide(ctx)
	response, err := r.checked(&r.items[0])
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	return response, nil
}

// addCheckMessage adds the check of a message.
func (r *round) addCheckMessage(id uint64, m *stintv1.CheckRequest) {
	cost := int64(1)
	if m.Cost != nil {
		cost = m.GetCost()
	}
	switch n := len(m.GetAttributes()); {
	case n == 0:
		r.addWrong(id, badRequest("attributes: is missing: say what the request is, such as api_key and path"))
	case n > maxAttributes:
		r.addWrong(id, badRequest("attributes: has %d entries (give at most %d)", n, maxAttributes))
	default:
		r.addCheck(id, rule.Map(m.GetAttributes()), cost)
	}
}

// checked returns the response to a check.
func (r *round) checked(it *item) (*stintv1.CheckResponse, error) {
	if it.err != nil {
		return nil, it.err
	}
	o, err := r.check(it)
	if err != nil {
		return nil, err
	}
	response := &stintv1.CheckResponse{
		Decision: decision(faceOf(o)), Listed: o.List == rule.ListDeny, Unavailable: unavailable(o),
		Limits: make([]*stintv1.LimitDecision, len(o.Hits)),
	}
	if o.Face >= 0 {
		response.Rule = o.Hits[o.Face].Rule.ID
	}
	for i := range o.Hits {
		h := &o.Hits[i]
		response.Limits[i] = &stintv1.LimitDecision{Rule: h.Rule.ID, Name: h.Limit.Name(), Shadow: h.Shadow, Decision: decision(&h.Decision)}
	}
	return response, nil
}

// faceOf returns the combined decision of an outcome. When a list decided, it has no
// numbers.
func faceOf(o *rule.Outcome) *stint.Decision {
	if o.List != rule.ListNone || o.Face < 0 {
		return &stint.Decision{Allowed: o.Allowed()}
	}
	return &o.Decision
}

// unavailable reports whether a request was denied because the store failed: some
// enforced rule fails closed and has a degraded denial, even if another rule has the
// longest wait.
func unavailable(o *rule.Outcome) bool {
	if o.Face < 0 || o.Allowed() {
		return false
	}
	for i := range o.Hits {
		h := &o.Hits[i]
		if d := &h.Decision; !h.Shadow && d.Degraded && !d.Allowed && h.Rule.Policy.OnFailure == stint.FailClosed {
			return true
		}
	}
	return false
}
