package guard

import (
	"context"
	"sync"
	"time"
)

// background runs goroutines that end with the guard.
type background struct {
	ctx    context.Context //nolint:containedctx // close cancels it, and every goroutine ends with it
	cancel context.CancelFunc
	mu     struct {
		sync.Mutex

		closed  bool
		running sync.WaitGroup
	}
}

func (m *background) init() { m.ctx, m.cancel = context.WithCancel(context.Background()) }

// run starts f in a goroutine, unless the guard is closed.
func (m *background) run(f func(context.Context)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.mu.closed {
		m.mu.running.Go(func() { f(m.ctx) })
	}
}

// close cancels the context of all goroutines and waits for their end.
func (m *background) close() {
	m.cancel()
	m.mu.Lock()
	m.mu.closed = true
	m.mu.Unlock()
	m.mu.running.Wait()
}

// pause waits, and returns false as soon as ctx ends.
func pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
