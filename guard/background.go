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

func (b *background) init() { b.ctx, b.cancel = context.WithCancel(context.Background()) }

// run starts f in a goroutine, unless the guard is closed.
func (b *background) run(f func(context.Context)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.mu.closed {
		b.mu.running.Go(func() { f(b.ctx) })
	}
}

// close cancels the context of all goroutines and waits for their end.
func (b *background) close() {
	b.cancel()
	b.mu.Lock()
	b.mu.closed = true
	b.mu.Unlock()
	b.mu.running.Wait()
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
