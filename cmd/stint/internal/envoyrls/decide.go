package envoyrls

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// Bounds of one request.
const (
	maxDescriptors = 1000
	maxEntries     = 100 // entries of one descriptor
)

// ShouldRateLimit implements Envoy's rate limit service. It is shorthand for [Service.Decide].
func (s *Service) ShouldRateLimit(ctx context.Context, request *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	response, _, err := s.Decide(ctx, request)
	return response, err
}

// Decide answers a request from Envoy, and reports whether an enforced limit was decided
// without the store. The response itself does not say so.
func (s *Service) Decide(ctx context.Context, request *pb.RateLimitRequest) (response *pb.RateLimitResponse, degraded bool, err error) {
	if err := check(request); err != nil {
		return nil, false, err
	}
	if e := s.options.Emergency(); e != nil {
		if response, degraded = s.decideEmergency(ctx, e, request); response != nil {
			return response, degraded, nil
		}
	}
	domain := (*s.domains.Load())[request.GetDomain()]
	p := s.borrow()
	defer s.release(p)
	if err := s.fill(p, domain, request); err != nil {
		return nil, false, err
	}
	if err := p.decide(ctx, s.options.Store); err != nil && !p.denyOverBudget(err) {
		return nil, false, s.fail(ctx, err)
	}
	if p.asksEnvoy() {
		p.countFailed()
		return nil, false, status.Error(codes.Unavailable, "no decision could be made: the store fails")
	}
	return s.answer(ctx, p, request), degraded || p.degraded(), nil
}

// answer returns the response to a plan that the store has decided.
func (s *Service) answer(ctx context.Context, p *plan, request *pb.RateLimitRequest) *pb.RateLimitResponse {
	if p.all {
		p.judge()
		p.countHits()
	}
	if !p.count() {
		s.options.Unmatched.Inc()
	}
	response := p.response()
	if s.options.Headers != nil {
		response.ResponseHeadersToAdd = s.options.Headers.headers(response.GetStatuses())
	}
	if s.options.Shadow {
		response.OverallCode = ok
	}
	s.decided(ctx, p, request, response.GetOverallCode() == ok)
	response.DynamicMetadata = p.metadata(request, s.options.Metadata)
	return response
}

func check(request *pb.RateLimitRequest) error {
	descriptors := request.GetDescriptors()
	switch {
	case request.GetDomain() == "":
		return status.Error(codes.InvalidArgument, "rate limit domain must not be empty")
	case len(descriptors) == 0:
		return status.Error(codes.InvalidArgument, "rate limit descriptor list must not be empty")
	case len(descriptors) > maxDescriptors:
		return status.Errorf(codes.InvalidArgument, "there are %d descriptors (send at most %d)", len(descriptors), maxDescriptors)
	}
	for i, d := range descriptors {
		if n := len(d.GetEntries()); n > maxEntries {
			return status.Errorf(codes.InvalidArgument, "descriptor %d has %d entries (send at most %d)", i, n, maxEntries)
		}
	}
	return nil
}

// fill makes the plan of a request. An unknown domain has no limits.
func (s *Service) fill(p *plan, domain *file, request *pb.RateLimitRequest) error {
	for i, d := range request.GetDescriptors() {
		if err := s.match(p, i, domain, request, d); err != nil {
			return err
		}
	}
	p.replace()
	p.lone = p.quotas() == 1
	if p.all {
		p.separate()
	} else {
		p.together()
	}
	return nil
}

// match adds the matches of a descriptor to the plan, or one match without a limit.
func (s *Service) match(p *plan, i int, domain *file, request *pb.RateLimitRequest, d *common.RateLimitDescriptor) error {
	var f found
	switch brought := d.GetLimit(); {
	case domain == nil:
	case brought == nil:
		f = domain.top.find(d.GetEntries())
	default:
		var err error
		if f.limits, err = s.override(domain.domain, brought); err != nil {
			return err
		}
	}
	if len(f.limits) == 0 {
		p.matches = append(p.matches, match{of: i})
		return nil
	}
	m := match{of: i, cost: hits(request, d)}
	if !f.limits[0].unlimited { // an unlimited limit is the only one and needs no key
		m.key = key(domain.domain, d.GetEntries(), f.shared)
	}
	for _, m.limit = range f.limits {
		p.matches = append(p.matches, m)
	}
	return nil
}

// hits returns the cost of a descriptor: its own hits_addend, or that of the request if it has
// none. 0 means 1.
func hits(request *pb.RateLimitRequest, d *common.RateLimitDescriptor) int64 {
	n := uint64(max(1, request.GetHitsAddend()))
	if own := d.GetHitsAddend(); own != nil {
		n = own.GetValue()
	}
	cost := int64(min(n, stint.MaxCost))
	if d.GetIsNegativeHits() {
		return -cost
	}
	return cost
}

// fail returns the gRPC status of an error. The cause may name internal servers, so
// only the log gets it; after the caller has given up, nothing is logged.
func (s *Service) fail(ctx context.Context, err error) error {
	code, text := codes.Internal, "no decision could be made"
	if e, ok := errors.AsType[*stint.Error](err); ok {
		switch e.Code {
		case stint.CodeUnavailable, stint.CodeExhausted, stint.CodeContended:
			code, text = codes.Unavailable, text+": the store fails"
		case stint.CodeTimeout:
			code, text = codes.DeadlineExceeded, text+" in time"
		case stint.CodeCanceled:
			return status.Error(codes.Canceled, "the caller gave up")
		}
	}
	if !over(ctx) {
		s.options.Logger.Error("no decision", "error", fmt.Sprint(err))
	}
	return status.Error(code, text)
}

// over reports whether the caller's time is up. A store may time out by a timer of its
// own, before the context does.
func over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// denyOverBudget turns failures of overrides into denials if the store failed only
// because its budget for callers' keys is used up. It returns false in all other
// cases. With an error instead, an Envoy that passes requests without an answer would
// let these through: a client could flood the budget with keys and so escape every
// override.
//
// The claims of a failed group were not charged. The other descriptors of the group
// are answered as if no limit applied to them.
func (p *plan) denyOverBudget(err error) bool {
	_, parts := stint.Sizes(p.groups)
	errs, whole := storekit.PartErrors(err, parts)
	if errs == nil {
		errs = slices.Repeat([]error{whole}, parts)
	}
	if !slices.ContainsFunc(errs, isOverBudget) || slices.ContainsFunc(errs, func(err error) bool { return err != nil && !isOverBudget(err) }) {
		return false
	}
	from := 0
	for i := range p.groups {
		for part := range p.groups[i].Parts() {
			to := from + len(p.groups[i].Part(part))
			if errs[0] != nil {
				p.deny(from, to)
			}
			from, errs = to, errs[1:]
		}
	}
	return true
}

func isOverBudget(err error) bool {
	e, ok := errors.AsType[*stint.Error](err)
	return ok && e.Kind == stint.KindCallerBudget
}

// deny denies the overrides among undecided claims, and drops the other limits.
func (p *plan) deny(from, to int) {
	clear(p.decisions[from:to])
	for i := range p.matches {
		if m := &p.matches[i]; m.applies() && m.claim >= from && m.claim < to && !m.limit.counted.FromCaller() {
			m.limit = nil
		}
	}
}
