package adaptive

import (
	"fmt"
	"sync"
	"time"
)

// sampler caches a load and reads it again when the cached one is too old.
type sampler struct {
	load  Load
	every time.Duration
	clock func() time.Duration

	mu   sync.Mutex
	last float64       // guarded by mu, as all below
	read time.Duration // when a read was last attempted
}

func (s *sampler) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	load, err := s.load()
	if err != nil {
		return fmt.Errorf("adaptive: the load cannot be read (use another Load): %w", err)
	}
	s.last, s.read = load, s.clock()
	return nil
}

func (s *sampler) now() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.clock(); now-s.read >= s.every {
		s.read = now
		if load, err := s.load(); err == nil {
			s.last = load
		}
	}
	return s.last
}
