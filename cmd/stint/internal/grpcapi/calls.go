package grpcapi

import (
	"context"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/cmd/stint/internal/decide"
	"github.com/stintdev/stint/cmd/stint/internal/tracing"
	"github.com/stintdev/stint/cmd/stint/internal/w3ctrace"
	"github.com/stintdev/stint/rule"
)

// round is one call to the store: checks and takes that are decided together, in their
// order. It is pooled.
type round struct {
	*decide.Batch

	service *Service
	ids     []uint64      // the ids of the items of a stream
	limits  []stint.Limit // the limits of the take that is being added

	rows      []row // of a batch of checks, with its results below
	decisions []stint.Decision
	marks     []mark
}

// release clears the data of callers and puts the round back into the pool, unless it has
// grown large.
func (r *round) release() {
	r.End()
	clear(r.rows)
	clear(r.limits)
	r.rows, r.ids = r.rows[:0], r.ids[:0]
	if cap(r.rows) <= maxMessageSlots {
		r.service.rounds.Put(r)
	}
}

// spanOf returns the span of a call.
func spanOf(ctx context.Context) w3ctrace.Ref {
	return tracing.RefOf(ctx, metadata.ValueFromIncomingContext(ctx, "traceparent"))
}

// Check decides the request that the message describes, by the rules.
func (s *Service) Check(ctx context.Context, m *stintv1.CheckRequest) (*stintv1.CheckResponse, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	r := s.rounds.Get().(*round) //nolint:forcetypeassert // the pool holds nothing else
	defer r.release()
	if err := r.addCheck(m); err != nil {
		return nil, s.rejected(ctx, err)
	}
	r.SetSpan(spanOf(ctx))
	r.Decide(ctx, time.Now())
	a, err := r.Answer(0)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	return checkResponse(a), nil
}

// addCheck adds the check of a message.
func (r *round) addCheck(m *stintv1.CheckRequest) error {
	cost := int64(1)
	if m.Cost != nil {
		cost = m.GetCost()
	}
	switch n := len(m.GetAttributes()); {
	case n == 0:
		return badRequest("attributes: is missing: say what the request is, such as api_key and path")
	case n > maxAttributes:
		return badRequest("attributes: has %d entries (give at most %d)", n, maxAttributes)
	}
	if err := checkID(m.GetRequestId()); err != nil {
		return err
	}
	if err := r.Check(rule.Map(m.GetAttributes()), cost); err != nil {
		return err
	}
	r.once(m.GetRequestId(), m)
	return nil
}

func checkResponse(a *decide.Answer) *stintv1.CheckResponse {
	o := a.Outcome
	response := &stintv1.CheckResponse{
		Decision: decision(a.Decision), Listed: o.List == rule.ListDeny, Unavailable: a.Unavailable,
		Limits: make([]*stintv1.LimitDecision, len(o.Hits)),
	}
	if o.Binding >= 0 {
		response.Rule, response.Reason = o.Hits[o.Binding].Rule.ID, o.Reason()
	}
	for i := range o.Hits {
		h := &o.Hits[i]
		response.Limits[i] = &stintv1.LimitDecision{Rule: h.Rule.ID, Name: h.Limit.Name(), Shadow: h.Shadow, Decision: decision(&h.Decision)}
	}
	return response
}

// take is a message of Take, Peek, GiveBack or Reset.
type take struct {
	decide.Take // a take; its limits are in limits

	limits []*stintv1.Limit
	refund bool // Cost is the number of units to refund

	requestID string
	message   proto.Message
}

func takeOf(m *stintv1.TakeRequest) (t take, err error) {
	t = take{Take: decide.Take{Key: m.GetKey(), Cost: 1, Extra: m.GetExtra(), At: m.GetAtUs()}, limits: m.GetLimits(), requestID: m.GetRequestId(), message: m}
	if m.Cost != nil {
		t.Cost = m.GetCost()
	}
	var ok bool
	if t.OnFailure, ok = onFailure(m.GetOnStoreFailure()); !ok {
		err = badRequest("on_store_failure: %d is not known", m.GetOnStoreFailure())
	}
	return t, err
}

// onFailure converts a failure policy. The message's enumeration has 0 for the default,
// and the values from 1 on.
func onFailure(f stintv1.OnStoreFailure) (stint.OnFailure, bool) {
	return stint.OnFailure(max(1, f) - 1), f >= 0 && f <= stintv1.OnStoreFailure_ON_STORE_FAILURE_LAST_KNOWN
}

// addTake compiles the limits of a take and adds it.
func (r *round) addTake(t *take) error {
	if err := decide.CheckLimits(len(t.limits)); err != nil {
		return err
	}
	r.limits = r.limits[:0]
	for i, l := range t.limits {
		limit, err := r.service.limit(l, i)
		if err != nil {
			return err
		}
		r.limits = append(r.limits, limit)
	}
	t.Limits = r.limits
	err := checkID(t.requestID)
	switch {
	case err != nil:
	case t.refund:
		err = r.Refund(&t.Take)
	default:
		err = r.Take(&t.Take)
	}
	if err == nil {
		r.once(t.requestID, t.message)
	}
	return err
}

// Take decides a request of one key under the limits that the caller sends.
func (s *Service) Take(ctx context.Context, m *stintv1.TakeRequest) (*stintv1.TakeResponse, error) {
	t, err := takeOf(m)
	combined, limits, err := s.takeOne(ctx, &t, err)
	if err != nil {
		return nil, err
	}
	return &stintv1.TakeResponse{Decision: combined, Limits: limits}, nil
}

// Peek returns what a key has left, and charges nothing.
func (s *Service) Peek(ctx context.Context, m *stintv1.PeekRequest) (*stintv1.PeekResponse, error) {
	t := take{Take: decide.Take{Key: m.GetKey()}, limits: m.GetLimits()}
	combined, limits, err := s.takeOne(ctx, &t, nil)
	if err != nil {
		return nil, err
	}
	return &stintv1.PeekResponse{Decision: combined, Limits: limits}, nil
}

// GiveBack refunds what a take was charged.
func (s *Service) GiveBack(ctx context.Context, m *stintv1.GiveBackRequest) (*stintv1.GiveBackResponse, error) {
	t := take{Take: decide.Take{Key: m.GetKey(), Cost: 1, At: m.GetAtUs()}, limits: m.GetLimits(), refund: true, requestID: m.GetRequestId(), message: m}
	if m.Cost != nil {
		t.Cost = m.GetCost()
	}
	combined, limits, err := s.takeOne(ctx, &t, nil)
	if err != nil {
		return nil, err
	}
	return &stintv1.GiveBackResponse{Decision: combined, Limits: limits}, nil
}

// Reset forgets what a key has used. Only trusted callers may.
func (s *Service) Reset(ctx context.Context, m *stintv1.ResetRequest) (*stintv1.ResetResponse, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	if !s.trusted() {
		return nil, refuse("to forget a key")
	}
	t := take{Take: decide.Take{Key: m.GetKey(), Forget: true}, limits: m.GetLimits()}
	if _, _, err := s.takeOne(ctx, &t, nil); err != nil {
		return nil, err
	}
	return new(stintv1.ResetResponse), nil
}

// takeOne decides one take in a round of its own. wrong is the error of its message, or nil.
func (s *Service) takeOne(ctx context.Context, t *take, wrong error) (*stintv1.Decision, []*stintv1.LimitDecision, error) {
	if err := s.admit(ctx); err != nil {
		return nil, nil, err
	}
	r := s.rounds.Get().(*round) //nolint:forcetypeassert // the pool holds nothing else
	defer r.release()
	if wrong == nil {
		wrong = r.addTake(t)
	}
	if wrong != nil {
		return nil, nil, s.rejected(ctx, wrong)
	}
	r.SetSpan(spanOf(ctx))
	r.Decide(ctx, time.Now())
	a, err := r.Answer(0)
	if err != nil {
		return nil, nil, s.failed(ctx, err)
	}
	combined, limits := takeDecisions(a)
	return combined, limits, nil
}

// takeDecisions converts the answer to a take: the combined decision, and that of each
// limit if there are several.
func takeDecisions(a *decide.Answer) (*stintv1.Decision, []*stintv1.LimitDecision) {
	if len(a.Claims) == 1 {
		return decision(a.Decision), nil
	}
	limits := make([]*stintv1.LimitDecision, len(a.Claims))
	for i := range a.Claims {
		l := a.Claims[i].Limit
		limits[i] = &stintv1.LimitDecision{Rule: l.Rule(), Name: l.Name(), Decision: decision(&a.Decisions[i])}
	}
	return decision(a.Decision), limits
}
