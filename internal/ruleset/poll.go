package ruleset

import (
	"context"
	"math/rand/v2"
	"time"
)

// Poll calls changed every [PollEvery] until ctx ends, from a moment on that
// differs among nodes.
func Poll(ctx context.Context, changed func()) {
	for wait := rand.N(PollEvery); Pause(ctx, wait); wait = PollEvery {
		changed()
	}
}

// Pause waits, and reports false when ctx ended before.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
