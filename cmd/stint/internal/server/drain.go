package server

import (
	"context"
	"sync"
	"time"
)

// drain stops serving without breaking requests. It reports unready, goes on accepting
// for DrainDelay so that load balancers notice first, and then closes the listeners in
// groups. The gateway comes first, so that the health endpoints on http still answer
// while its long requests end; admin with its metrics comes last.
func (s *Server) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.DrainTimeout)
	defer cancel()
	s.isReady.Store(false)
	for _, l := range s.listeners {
		l.service.unready()
	}
	s.log.Info("draining")
	pause(ctx, s.config.DrainDelay)
	s.drainOnly(ctx, "gateway")
	s.drainOnly(ctx, "http", "grpc", "resp")
	s.drainOnly(ctx, "admin")
	s.log.Info("stopped")
}

// drainOnly drains the named listeners concurrently.
func (s *Server) drainOnly(ctx context.Context, names ...string) {
	var all sync.WaitGroup
	for _, l := range s.listeners {
		for _, name := range names {
			if l.name == name {
				all.Go(func() { s.drainOne(ctx, l) })
			}
		}
	}
	all.Wait()
}

func (s *Server) drainOne(ctx context.Context, l *listener) {
	if err := l.service.drain(ctx); err != nil {
		s.log.Warn("requests cut", "name", l.name)
	}
	l.service.stop()
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
