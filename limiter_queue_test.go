package stint

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
)

// However the waiters end, the limiter keeps nothing for their keys.
func TestIdleKeysHaveNoQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit, err := PerSecond(1).Compile()
		if err != nil {
			t.Fatal(err)
		}
		l, err := NewLimiter(NewMemory(MemoryOptions{}), "test", limit)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() { _ = l.Wait(ctx, fmt.Sprint(i%100)) })
		}
		synctest.Wait()
		if n := len(l.waiting.queues); n != 100 {
			t.Errorf("%d queues of waiters; want 100", n)
		}
		cancel()
		wg.Wait()
		for i := range 300 {
			wg.Go(func() { _ = l.Wait(t.Context(), fmt.Sprint(i%100)) })
		}
		wg.Wait()
		if l.waiting.queues != nil {
			t.Errorf("%d queues are left", len(l.waiting.queues))
		}
	})
}
