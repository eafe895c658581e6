package guard

import (
	"context"
	"os"
	"sync/atomic"
	"time"
)

// stallDetector tells a slow store from a process that has no processor to spare. A
// node under more requests than it can carry sees every call take long, and
// would leave alone a store that is well, just when limits are needed most.
//
// It watches while calls are slow, and costs nothing else: a goroutine that
// sleeps, asks itself something, and sees how late it is. A slow call is the
// store's doing if it was watched from its beginning, and the process was never
// late meanwhile.
type stallDetector struct {
	background *background
	epoch      time.Time

	watching atomic.Bool
	since    atomic.Int64 // when the watch began; all in nanoseconds from epoch
	until    atomic.Int64 // when it ends, unless another call is slow
	looked   atomic.Int64 // when it last looked
	late     atomic.Int64 // when it last looked too late
}

const (
	watchEvery = 2 * time.Millisecond
	watchFor   = 3 * time.Second
	lateness   = time.Millisecond // more than timers are late by themselves
)

func (w *stallDetector) init(m *background) { w.background, w.epoch = m, time.Now() }

func (w *stallDetector) now() int64 { return int64(time.Since(w.epoch)) }

// excuses reports whether a slow call that ends now is not the store's doing,
// as far as is known.
func (w *stallDetector) excuses(took time.Duration) bool {
	now := w.now()
	w.until.Store(now + int64(watchFor))
	if w.watching.CompareAndSwap(false, true) {
		w.since.Store(now)
		w.looked.Store(now)
		w.background.run(w.watch)
		return true
	}
	began := now - int64(took)
	return w.since.Load() > began || w.late.Load() > began || tooLong(now-w.looked.Load())
}

// watch looks until no call has been slow for a while.
func (w *stallDetector) watch(ctx context.Context) {
	answer, end := echo()
	defer end()
	for w.looked.Load() < w.until.Load() {
		if !pause(ctx, watchEvery) {
			return
		}
		answer()
		w.look(w.now())
	}
	w.watching.Store(false)
}

// echo returns a function that waits for an answer which is given at once, as
// callers of a store wait for theirs. While all processors are busy the network
// is looked at last: timers are in time when answers are late. Where no pipe
// can be had it waits for nothing.
func echo() (answer, end func()) {
	out, in, err := os.Pipe()
	if err != nil {
		return func() {}, func() {}
	}
	var one [1]byte
	answer = func() {
		go func() { _, _ = in.Write([]byte{0}) }() // a pipe of this process: its reader waits
		_, _ = out.Read(one[:])
	}
	return answer, func() { _, _ = in.Close(), out.Close() }
}

// look notes whether the last look is too long ago.
func (w *stallDetector) look(now int64) {
	if tooLong(now - w.looked.Load()) {
		w.late.Store(now)
	}
	w.looked.Store(now)
}

func tooLong(slept int64) bool { return slept > int64(watchEvery+lateness) }
