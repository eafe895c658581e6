package main

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/go-chi/httprate"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"
)

func newGoLimiter(a allowance) (take, error) {
	s, err := memorystore.New(&memorystore.Config{Tokens: uint64(a.burst), Interval: a.window()})
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	return func(key string) bool {
		_, _, _, ok, err := s.Take(ctx, key)
		return err == nil && ok
	}, nil
}

// rateShards is the number of maps that share the keys: enough that two CPUs seldom contend for
// a lock.
const rateShards = 256

// rateMap is what programs build around x/time/rate to limit each key.
type rateMap struct {
	seed   maphash.Seed
	limit  rate.Limit
	burst  int
	shards [rateShards]rateShard
}

type rateShard struct {
	mu       sync.Mutex
	limiters map[string]*rate.Limiter
}

func newXTimeRate(a allowance) (take, error) {
	m := &rateMap{seed: maphash.MakeSeed(), limit: rate.Every(a.every), burst: int(a.burst)}
	for i := range m.shards {
		m.shards[i].limiters = make(map[string]*rate.Limiter)
	}
	return func(key string) bool { return m.limiter(key).Allow() }, nil
}

func (m *rateMap) limiter(key string) *rate.Limiter {
	s := &m.shards[maphash.String(m.seed, key)%rateShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.limiters[key]
	if !ok {
		l = rate.NewLimiter(m.limit, m.burst)
		s.limiters[key] = l
	}
	return l
}

func newThrottled(a allowance) (take, error) {
	s, err := memstore.NewCtx(0)
	if err != nil {
		return nil, err
	}
	return throttledTake(s, a)
}

func throttledTake(s throttled.GCRAStoreCtx, a allowance) (take, error) {
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(1, a.every), MaxBurst: int(a.burst) - 1}
	l, err := throttled.NewGCRARateLimiterCtx(s, quota)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	return func(key string) bool {
		limited, _, err := l.RateLimitCtx(ctx, key, 1)
		return err == nil && !limited
	}, nil
}

func newUlule(a allowance) (take, error) { return ululeTake(memory.NewStore(), a), nil }

func ululeTake(s limiter.Store, a allowance) take {
	l, ctx := limiter.New(s, limiter.Rate{Period: a.window(), Limit: a.burst}), context.Background()
	return func(key string) bool {
		d, err := l.Get(ctx, key)
		return err == nil && !d.Reached
	}
}

// slidingCounter decides with httprate's local counter as httprate's own middleware does,
// without HTTP: it reads both counts and writes one under a lock.
type slidingCounter struct {
	mu      sync.Mutex
	counter httprate.LimitCounter
	limit   float64
	window  time.Duration
}

func newHTTPRate(a allowance) (take, error) {
	s := &slidingCounter{counter: httprate.NewLocalLimitCounter(a.window()), limit: float64(a.burst), window: a.window()}
	s.counter.Config(int(a.burst), s.window)
	return s.take, nil
}

func (s *slidingCounter) take(key string) bool {
	now := time.Now().UTC()
	current := now.Truncate(s.window)
	s.mu.Lock()
	defer s.mu.Unlock()
	count, previous, err := s.counter.Get(key, current, current.Add(-s.window))
	if err != nil {
		return false
	}
	passed := float64(now.Sub(current)) / float64(s.window)
	if float64(count)+float64(previous)*(1-passed)+1 > s.limit {
		return false
	}
	return s.counter.IncrementBy(key, current, 1) == nil
}

// newBare returns the floor under every limiter that finds its state by key: it fetches
// the key, hashes it and admits.
func newBare(allowance) (take, error) {
	seed := maphash.MakeSeed()
	return func(key string) bool { return maphash.String(seed, key) != 0 }, nil
}
