package grpcapi

import (
	"fmt"
	"math"
	"time"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/cmd/stint/internal/decide"
	"github.com/stintdev/stint/internal/boundedcache"
)

// Bounds of a limitCache: the number of limits, and the length of each limit's text.
const (
	maxCachedLimits = 4096
	maxCachedText   = 512 // bytes
)

// limitCache caches the compiled limits of requests. To compile a limit takes
// microseconds, and most callers send the same few.
type limitCache struct {
	*boundedcache.Cache[stint.Spec, stint.Limit]
}

func newLimitCache() limitCache {
	return limitCache{boundedcache.New[stint.Spec, stint.Limit](maxCachedLimits)}
}

// get returns the compiled limit of a spec, and caches it.
func (c limitCache) get(s *stint.Spec) (stint.Limit, error) {
	if limit, ok := c.Get(*s); ok {
		return limit, nil
	}
	limit, err := s.Compile()
	if err == nil && len(s.RefillRate)+len(s.Anchor)+len(s.Period)+len(s.UTCOffset) <= maxCachedText {
		c.Put(*s, limit)
	}
	return limit, err
}

// limit compiles entry i of a message's limits. Limits of callers have a cache of
// their own, so that a caller with ever new limits cannot evict those of other
// servers' rules.
func (s *Service) limit(l *stintv1.Limit, i int) (stint.Limit, error) {
	spec, err := specOf(l)
	if err != nil {
		return stint.Limit{}, within(i, err)
	}
	decide.MarkCaller(&spec, s.trusted())
	limits := s.limits
	if spec.FromCaller {
		limits = s.callersLimits
	}
	limit, err := limits.get(&spec)
	if err != nil {
		return stint.Limit{}, within(i, err)
	}
	return limit, s.checkScope(limit, place(i))
}

// checkScope returns an error if an untrusted caller names a rule or a namespace.
func (s *Service) checkScope(limit stint.Limit, field string) error {
	if s.trusted() || limit.Rule() == "" && limit.Namespace() == "" {
		return nil
	}
	return refuse(field + ": to name a rule or a namespace")
}

func within(i int, err error) error { return badRequest("%s: %v", place(i), err) }

func place(i int) string { return fmt.Sprintf("limits[%d]", i) }

// specOf converts a limit. It refuses a window that a time.Duration cannot hold,
// because an overflow could produce one in range.
func specOf(l *stintv1.Limit) (stint.Spec, error) {
	const most = math.MaxInt64 / int64(time.Microsecond)
	window := l.GetWindowUs()
	if window < 0 || window > most {
		return stint.Spec{}, badRequest("window_us: %d is out of range (use %d to %d)", window, stint.MinWindow.Microseconds(), stint.MaxWindow.Microseconds())
	}
	wait := l.GetMaxWaitUs()
	if wait < 0 || wait > most {
		return stint.Spec{}, badRequest("max_wait_us: %d is out of range (use 0 to %d)", wait, stint.MaxWindow.Microseconds())
	}
	algorithm, err := stint.ParseAlgorithm(l.GetAlgorithm())
	return stint.Spec{
		Namespace: l.GetNamespace(), Rule: l.GetRule(), Name: l.GetName(),
		Algorithm: algorithm,
		Limit:     l.GetLimit(), Window: time.Duration(window) * time.Microsecond,
		Capacity: l.GetCapacity(), RefillRate: l.GetRefillRate(),
		Buckets: int(min(l.GetBuckets(), math.MaxInt32)), Queue: l.GetQueue(), MaxWait: time.Duration(wait) * time.Microsecond,
		Period: l.GetPeriod(), Anchor: l.GetAnchor(), UTCOffset: l.GetUtcOffset(),
		FromCaller: l.GetFromCaller(),
	}, err
}
