package envoyrls

import (
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/boundedcache"
)

// maxOverrides bounds how many compiled overrides are cached.
const maxOverrides = 1024

// override is a limit that a request has for a descriptor, and its domain.
type override struct {
	domain   string
	requests uint32
	window   time.Duration
}

// overrides caches compiled overrides, each as a slice of one limit. A caller that keeps sending
// new overrides pays only for compiling them.
type overrides = boundedcache.Cache[override, []*limit]

// override returns the compiled limit of a descriptor's override.
func (s *Service) override(domain string, requested *common.RateLimitDescriptor_RateLimitOverride) ([]*limit, error) {
	window, err := windowOf(requested)
	if err != nil {
		return nil, err
	}
	o := override{domain, requested.GetRequestsPerUnit(), window}
	if b, ok := s.overrides.Get(o); ok {
		return b, nil
	}
	p := defaultPolicy(s.options.Consistency)
	l := &limit{path: domain, counters: s.options.Counters(domain, p.OnFailure)}
	if err := l.count(numbers{requests: o.requests, window: window, algorithm: stint.FixedWindow, fromCaller: true, policy: p}); err != nil {
		return nil, status.Error(codes.InvalidArgument, "rate limit override: "+err.Error())
	}
	b := []*limit{l}
	s.overrides.Put(o, b)
	return b, nil
}

// windowOf returns the window of an override. Its unit enumeration has the same values
// as that of a response.
func windowOf(requested *common.RateLimitDescriptor_RateLimitOverride) (time.Duration, error) {
	length := lengthOf(unit(requested.GetUnit()))
	if length == 0 {
		return 0, status.Errorf(codes.InvalidArgument, "rate limit override: %d is not a unit of time (use SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR)", requested.GetUnit())
	}
	times := int64(1)
	if requested.GetUnitMultiplier() != nil {
		times = int64(requested.GetUnitMultiplier().GetValue())
	}
	if times < 1 || times > int64(stint.MaxWindow/length) {
		return 0, status.Errorf(codes.InvalidArgument, "rate limit override: %d is not a number of units (use 1, or more that last up to 400 days)", times)
	}
	return length * time.Duration(times), nil
}
