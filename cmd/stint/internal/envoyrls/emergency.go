package envoyrls

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/emergency"
	"github.com/stintdev/stint/rule"
)

// decideEmergency decides a request by the limit of an emergency, and returns the response if
// that denies. Otherwise it returns nil, and the limits of the domain decide. It also reports
// whether the limit of the emergency was decided without the store.
//
// The claim is a call of its own before theirs. In one group with them, a store that fails
// would make the whole request an error, because they fail closed and leave that choice to
// Envoy, which by default lets the request pass: the emergency must hold then too. The cost is
// that a request which the domain's limits deny has used the emergency's limit as well.
func (s *Service) decideEmergency(ctx context.Context, e *emergency.InForce, request *pb.RateLimitRequest) (response *pb.RateLimitResponse, degraded bool) {
	c := emergencyClaim(e, request)
	if c.Cost < 0 { // a refund
		return nil, false
	}
	d, err := s.options.Store.Take(ctx, c)
	if err != nil {
		s.options.Logger.Debug("emergency: no decision", "error", fmt.Sprint(err))
		return nil, true
	}
	s.options.ObserveEmergency(&d)
	if d.Allowed {
		return nil, d.Degraded
	}
	s.decidedByEmergency(ctx, &c, &d)
	return s.emergencyDenial(e, request, c.Limit, &d), d.Degraded
}

// emergencyClaim returns the claim of a request: by the attribute of the emergency if a
// descriptor has it, and otherwise by its first descriptor.
func emergencyClaim(e *emergency.InForce, request *pb.RateLimitRequest) stint.Claim {
	descriptors := request.GetDescriptors()
	cost := hits(request, descriptors[0])
	for _, d := range descriptors[1:] {
		cost = max(cost, hits(request, d))
	}
	attribute := rule.AttributeName(e.By)
	name := attribute
	if name == "ip" {
		name = "remote_address" // what Envoy's action of that name sends
	}
	for _, d := range descriptors {
		for _, entry := range d.GetEntries() {
			if rule.AttributeName(entry.GetKey()) != name {
				continue
			}
			if c, err := e.ByAttributes(rule.Map{attribute: entry.GetValue()}, cost); err == nil {
				return c
			}
		}
	}
	return e.ByKey(key(request.GetDomain(), descriptors[0].GetEntries(), nil), cost, false)
}

// emergencyDenial returns the response to a request that the emergency denies.
func (s *Service) emergencyDenial(e *emergency.InForce, request *pb.RateLimitRequest, l stint.Limit, d *stint.Decision) *pb.RateLimitResponse {
	wait := d.RetryAfter
	if wait == stint.Never {
		wait = d.ResetAfter
	}
	status := &descriptorStatus{
		Code:               overLimit,
		CurrentLimit:       &pb.RateLimitResponse_RateLimit{Name: emergency.Rule, RequestsPerUnit: uint32(min(l.Max(), math.MaxUint32)), Unit: unitOf(l.Window())},
		DurationUntilReset: durationpb.New(max(time.Second, (wait + time.Second - 1).Truncate(time.Second))),
	}
	response := &pb.RateLimitResponse{OverallCode: overLimit, Statuses: slices.Repeat([]*descriptorStatus{status}, len(request.GetDescriptors()))}
	if s.options.Headers != nil {
		response.ResponseHeadersToAdd = s.options.Headers.headers(response.GetStatuses())
	}
	for name, values := range e.Header {
		response.ResponseHeadersToAdd = append(response.ResponseHeadersToAdd, &core.HeaderValue{Key: name, Value: values[0]})
	}
	if s.options.Shadow {
		response.OverallCode = ok
	}
	return response
}

func unitOf(window time.Duration) pb.RateLimitResponse_RateLimit_Unit {
	switch window {
	case time.Second:
		return pb.RateLimitResponse_RateLimit_SECOND
	case time.Minute:
		return pb.RateLimitResponse_RateLimit_MINUTE
	case time.Hour:
		return pb.RateLimitResponse_RateLimit_HOUR
	}
	return pb.RateLimitResponse_RateLimit_DAY
}
