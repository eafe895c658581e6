package main

import (
	"hash/maphash"
	"sync"

	"golang.org/x/time/rate"
)

// rateShards is how many maps share the keys: enough that two CPUs seldom
// meet on a lock.
const rateShards = 256

// rateMap is what programs build around x/time/rate to have a limiter a key.
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
