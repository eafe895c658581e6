package envoyrls

import (
	"sync"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
)

// maxOverrides bounds how many limits that requests bring are kept compiled.
const maxOverrides = 1024

// overrides keeps the limits that requests bring, compiled. Who brings ever
// new ones only pays for compiling them.
type overrides struct {
	mu  *sync.RWMutex
	all map[override][]*limit // of one each; guarded by mu
}

// override is a limit that a request brings, and the domain that it counts in.
type override struct {
	domain   string
	requests uint32
	window   time.Duration
}

func newOverrides() overrides {
	return overrides{mu: new(sync.RWMutex), all: map[override][]*limit{}}
}

// override returns the limit that a descriptor brings with it.
func (s *Service) override(domain string, asked *common.RateLimitDescriptor_RateLimitOverride) ([]*limit, error) {
	window, err := windowOf(asked)
	if err != nil {
		return nil, err
	}
	o := override{domain, asked.GetRequestsPerUnit(), window}
	c := &s.overrides
	c.mu.RLock()
	b := c.all[o]
	c.mu.RUnlock()
	if b != nil {
		return b, nil
	}
	l := &limit{path: domain, counters: s.options.Counters(domain)}
	if err := l.count(numbers{requests: o.requests, window: window, algorithm: stint.FixedWindow, brought: true}); err != nil {
		return nil, status.Error(codes.InvalidArgument, "rate limit override: "+err.Error())
	}
	b = []*limit{l}
	c.put(o, b)
	return b, nil
}

// windowOf is how long an override counts. Its units have the numbers that
// those of a response have.
func windowOf(asked *common.RateLimitDescriptor_RateLimitOverride) (time.Duration, error) {
	length := lengthOf(unit(asked.GetUnit()))
	if length == 0 {
		return 0, status.Errorf(codes.InvalidArgument, "rate limit override: %d is not a unit of time (use SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR)", asked.GetUnit())
	}
	times := int64(1)
	if asked.GetUnitMultiplier() != nil {
		times = int64(asked.GetUnitMultiplier().GetValue())
	}
	if times < 1 || times > int64(stint.MaxWindow/length) {
		return 0, status.Errorf(codes.InvalidArgument, "rate limit override: %d is not a number of units (use 1, or more that last up to 400 days)", times)
	}
	return length * time.Duration(times), nil
}

// put makes room by dropping any other limit: what is in use comes back.
func (c *overrides) put(o override, b []*limit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) >= maxOverrides {
		for other := range c.all {
			delete(c.all, other)
			break
		}
	}
	c.all[o] = b
}
