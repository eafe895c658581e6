package envoyrls

import (
	"context"
	"errors"
	"fmt"
	"slices"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
)

// Bounds of one request.
const (
	maxDescriptors = 1000
	maxEntries     = 100 // of a descriptor
)

// ShouldRateLimit implements the service.
func (s *Service) ShouldRateLimit(ctx context.Context, request *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	if err := check(request); err != nil {
		return nil, err
	}
	domain := (*s.domains.Load())[request.GetDomain()]
	p := s.borrow()
	defer s.giveBack(p)
	if err := s.fill(p, domain, request); err != nil {
		return nil, err
	}
	if err := p.take(ctx, s.options.Store); err != nil {
		return nil, s.fail(err)
	}
	if p.countFailed() {
		return nil, status.Error(codes.Unavailable, "no decision could be made: the store fails")
	}
	return s.answer(p, request), nil
}

// answer is the response to a plan that the store has decided.
func (s *Service) answer(p *plan, request *pb.RateLimitRequest) *pb.RateLimitResponse {
	if p.all {
		p.judge()
	}
	if !p.count() {
		s.unmatched.Inc()
	}
	response := p.response()
	if s.options.Headers != nil {
		response.ResponseHeadersToAdd = s.options.Headers.headers(response.GetStatuses())
	}
	if s.options.Shadow {
		response.OverallCode = ok
	}
	response.DynamicMetadata = p.metadata(request)
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

// asked is what one descriptor asks for.
type asked struct {
	limit *limit // nil: no limit applies
	key   string
	cost  int64
	claim int // where its decision is
}

// plan is a request as claims on a store: one group of what is enforced, and
// each observed limit as a group of its own; where all is counted, a group for
// each.
type plan struct {
	all       bool
	asked     []asked
	enforced  []stint.Claim
	groups    []stint.Group
	decisions []stint.Decision
}

// borrow is a plan whose room is used again.
func (s *Service) borrow() *plan {
	p, ok := s.plans.Get().(*plan)
	if !ok {
		p = new(plan)
	}
	*p = plan{all: s.options.CountAll, asked: p.asked[:0], enforced: p.enforced[:0], groups: p.groups[:0], decisions: p.decisions[:0]}
	return p
}

// giveBack drops what the plan held: it names callers.
func (s *Service) giveBack(p *plan) {
	clear(p.asked)
	clear(p.enforced)
	clear(p.groups)
	s.plans.Put(p)
}

// fill plans a request. A domain that is not there has no limits.
func (s *Service) fill(p *plan, domain *file, request *pb.RateLimitRequest) error {
	for _, d := range request.GetDescriptors() {
		a, err := s.ask(domain, request, d)
		if err != nil {
			return err
		}
		p.asked = append(p.asked, a)
	}
	p.replace()
	if p.all {
		p.separate()
	} else {
		p.enforce()
		p.observe()
	}
	n := len(p.enforced) + len(p.groups) - min(1, len(p.enforced))
	p.decisions = slices.Grow(p.decisions, n)[:n]
	return nil
}

func (s *Service) ask(domain *file, request *pb.RateLimitRequest, d *common.RateLimitDescriptor) (a asked, err error) {
	if domain == nil {
		return asked{}, nil
	}
	var f found
	if brought := d.GetLimit(); brought != nil {
		f.limit, err = s.override(domain.domain, brought)
	} else {
		f = domain.top.find(d.GetEntries())
	}
	if err != nil || f.limit == nil || f.limit.unlimited {
		return asked{limit: f.limit}, err
	}
	return asked{limit: f.limit, key: key(domain.domain, d.GetEntries(), f.shared), cost: hits(request, d)}, nil
}

// hits is how much a descriptor uses: its own number, else that of the
// request, in which 0 means 1.
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

// replace drops the limits that others of the request stand in for.
func (p *plan) replace() {
	for i := range p.asked {
		if p.asked[i].limit == nil {
			continue
		}
		for _, name := range p.asked[i].limit.replaces {
			p.drop(name)
		}
	}
}

// drop keeps what a dropped limit replaces itself.
func (p *plan) drop(name string) {
	for i := range p.asked {
		if a := &p.asked[i]; a.applies() && a.limit.name == name {
			a.limit = &limit{replaces: a.limit.replaces, unlimited: true, dropped: true}
		}
	}
}

// applies reports whether a limit is counted.
func (a *asked) applies() bool { return a.limit != nil && !a.limit.unlimited }

// enforce makes the group of the limits that can deny.
func (p *plan) enforce() {
	for i := range p.asked {
		if a := &p.asked[i]; a.applies() && !a.limit.observed {
			a.claim = p.claim(a.make())
		}
	}
	if len(p.enforced) > 0 {
		p.groups = append(p.groups, stint.Group{Claims: p.enforced})
	}
}

// claim adds a claim, and returns where it is. Two of one state become one
// that asks for the sum, under the smaller limit.
func (p *plan) claim(c stint.Claim) int {
	for i := range p.enforced {
		same := &p.enforced[i]
		if same.Key != c.Key || same.Limit.Name() != c.Limit.Name() || same.Limit.Shape() != c.Limit.Shape() {
			continue
		}
		same.Cost = max(-stint.MaxCost, min(stint.MaxCost, same.Cost+c.Cost))
		if c.Limit.Max() < same.Limit.Max() {
			same.Limit = c.Limit
		}
		return i
	}
	p.enforced = append(p.enforced, c)
	return len(p.enforced) - 1
}

// observe makes a group of each limit that cannot deny. It is charged if what
// is enforced is.
func (p *plan) observe() {
	next := len(p.enforced)
	for i := range p.asked {
		if a := &p.asked[i]; a.applies() && a.limit.observed {
			p.groups = append(p.groups, stint.Group{Claims: []stint.Claim{a.make()}, Shadow: true})
			a.claim, next = next, next+1
		}
	}
}

// make is the claim of a descriptor. Whether a request passes while the store
// fails is for Envoy to say (failure_mode_deny), so it is told of the failure.
func (a *asked) make() stint.Claim {
	cost := a.cost
	if a.limit.banned && cost > 0 {
		cost = max(2, cost) // the limit allows one
	}
	return stint.Claim{Key: a.key, Limit: a.limit.counted, Cost: cost, Policy: stint.Policy{OnFailure: stint.FailClosed}}
}

func (p *plan) take(ctx context.Context, store stint.Store) error {
	if len(p.groups) == 0 {
		return nil
	}
	return store.TakeGroups(ctx, p.groups, p.decisions) //nolint:wrapcheck // translated at the edge
}

// countFailed reports whether a decision stands for one that the store did not
// make, and counts those.
func (p *plan) countFailed() (failed bool) {
	for i := range p.asked {
		a := &p.asked[i]
		if a.applies() && p.decisions[a.claim].Degraded && !p.decisions[a.claim].Allowed {
			a.limit.counters.Failed.Inc()
			failed = true
		}
	}
	return failed
}

// fail says in gRPC's codes why there is no decision. What is wrong may name
// servers of the inside; it is for the log.
func (s *Service) fail(err error) error {
	code, text := codes.Internal, "no decision could be made"
	if e, ok := errors.AsType[*stint.Error](err); ok {
		switch e.Code {
		case stint.CodeUnavailable, stint.CodeExhausted:
			code, text = codes.Unavailable, text+": the store fails"
		case stint.CodeTimeout:
			code, text = codes.DeadlineExceeded, text+" in time"
		case stint.CodeCanceled:
			return status.Error(codes.Canceled, "the caller gave up")
		}
	}
	s.options.Logger.Error("no decision", "error", fmt.Sprint(err))
	return status.Error(code, text)
}
