package grpcapi

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
)

// The bounds of a limitCache: so many limits, none of longer text.
const (
	maxCachedLimits = 4096
	maxCachedText   = 512 // bytes
)

// limitCache keeps the limits that requests bring, compiled: compiling costs
// microseconds, and most callers bring the same few.
type limitCache struct {
	mu     sync.RWMutex
	bySpec map[stint.Spec]stint.Limit
}

func (c *limitCache) init() { c.bySpec = map[stint.Spec]stint.Limit{} }

// get returns the limit that a spec describes.
func (c *limitCache) get(s *stint.Spec) (stint.Limit, error) {
	c.mu.RLock()
	limit, ok := c.bySpec[*s]
	c.mu.RUnlock()
	if ok {
		return limit, nil
	}
	limit, err := s.Compile()
	if err == nil && len(s.RefillRate)+len(s.Anchor)+len(s.Period)+len(s.UTCOffset) <= maxCachedText {
		c.put(s, limit)
	}
	return limit, err
}

// put makes room by dropping any other limit: what is in use comes back.
func (c *limitCache) put(s *stint.Spec, limit stint.Limit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.bySpec) >= maxCachedLimits {
		for other := range c.bySpec {
			delete(c.bySpec, other)
			break
		}
	}
	c.bySpec[*s] = limit
}

// limit is the limit at place i of the limits of a message.
func (s *Service) limit(l *stintv1.Limit, i int) (stint.Limit, error) {
	spec, err := specOf(l)
	if err != nil {
		return stint.Limit{}, within(i, err)
	}
	spec.FromCaller = spec.FromCaller || s.isCallers(&spec)
	limits := &s.limits
	if spec.FromCaller {
		limits = &s.callersLimits
	}
	limit, err := limits.get(&spec)
	if err != nil {
		return stint.Limit{}, within(i, err)
	}
	return limit, s.checkScope(limit, place(i))
}

func within(i int, err error) error { return badRequest("%s: %v", place(i), err) }

func place(i int) string { return fmt.Sprintf("limits[%d]", i) }

// specOf reads a limit. A window that a duration cannot hold is out of every
// range, and must not come back into one by overflowing.
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
