package main

import (
	"sync"
	"time"

	"github.com/go-chi/httprate"
)

// slidingCounter decides over httprate's local counter as httprate's own
// middleware does, without the HTTP around it: both counts are read and one
// is written under a lock.
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
