package ruleset

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// Hear implements [Source.Watch] for a source that announces versions. listen
// calls changed for each announcement until it fails. Hear calls it again one
// second later. Polling finds the versions whose announcements are missed.
func Hear(ctx context.Context, changed func(), listen func(ctx context.Context, changed func()) error, log *slog.Logger) {
	changed() // later versions are found by polling, even if announcements fail
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

// poll calls changed every [PollEvery] until ctx ends. It starts after a random
// delay so that nodes do not poll at the same moment.
func poll(ctx context.Context, changed func()) {
	for wait := rand.N(PollEvery); pause(ctx, wait); wait = PollEvery {
		changed()
	}
}

// pause waits for d. It returns false when ctx ends first.
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
