package guard

import (
	"context"
	"sync/atomic"
	"time"
)

// witness tells a slow store from a process that has no processor to spare. A
// node under more requests than it can carry sees every call take long, and
// would leave alone a store that is well, just when limits are needed most.
//
// It watches while calls are slow, and costs nothing else: a goroutine that
// sleeps and sees how late it wakes. A slow call is the store's doing if it
// was watched from its beginning, and the process was never late meanwhile.
type witness struct {
	minders *minders
	epoch   time.Time

	watching atomic.Bool
	since    atomic.Int64 // when the watch began; all in nanoseconds from epoch
	until    atomic.Int64 // when it ends, unless another call is slow
	late     atomic.Int64 // when the process was last late
}

const (
	watchEvery = 2 * time.Millisecond
	watchFor   = 3 * time.Second
	lateness   = time.Millisecond // beyond what timers are late by themselves
)

func (w *witness) init(m *minders) { w.minders, w.epoch = m, time.Now() }

func (w *witness) now() int64 { return int64(time.Since(w.epoch)) }

// excuses reports whether a slow call that ends now is not the store's doing,
// as far as is known.
func (w *witness) excuses(took time.Duration) bool {
	now := w.now()
	w.until.Store(now + int64(watchFor))
	if w.watching.CompareAndSwap(false, true) {
		w.since.Store(now)
		w.minders.run(w.watch)
		return true
	}
	began := now - int64(took)
	return w.since.Load() > began || w.late.Load() > began
}

// watch looks until no call has been slow for a while.
func (w *witness) watch(ctx context.Context) {
	for last := w.now(); last < w.until.Load(); {
		if !pause(ctx, watchEvery) {
			return
		}
		now := w.now()
		w.look(now, now-last)
		last = now
	}
	w.watching.Store(false)
}

// look notes whether a sleep took too long.
func (w *witness) look(now, slept int64) {
	if slept > int64(watchEvery+lateness) {
		w.late.Store(now)
	}
}
