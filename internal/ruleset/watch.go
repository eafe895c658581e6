package ruleset

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// Hear is [Source.Watch] for a source that announces versions. listen calls
// changed for each until it fails; it is called again a second later, and polls
// notice what it misses meanwhile.
func Hear(ctx context.Context, changed func(), listen func(ctx context.Context, changed func()) error, log *slog.Logger) {
	changed() // the poll notices what follows, whatever becomes of announcements
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { poll(ctx, changed) })
	for said := ""; ; {
		err := listen(ctx, changed)
		if ctx.Err() != nil {
			return
		}
		if err != nil && err.Error() != said {
			said = err.Error()
			log.Warn("rules: announcements of new versions are not heard; until they are, the source is polled", "every", PollEvery, "error", err)
		}
		if !pause(ctx, time.Second) {
			return
		}
	}
}

// poll calls changed every [PollEvery] until ctx ends, from a moment on that
// differs among nodes.
func poll(ctx context.Context, changed func()) {
	for wait := rand.N(PollEvery); pause(ctx, wait); wait = PollEvery {
		changed()
	}
}

// pause waits, and reports false when ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
