package guard

import (
	"context"
	"os"
	"sync/atomic"
	"time"
)

// stallDetector tells a slow store from a process that is short of processor time.
// On an overloaded node every call takes long. Without the detector, the breaker
// would open on a healthy store, just when limits are needed most.
//
// While calls are slow, a goroutine sleeps, exchanges a byte with itself through a
// pipe, and measures how late it is. The goroutine ends watchFor after the last slow
// call, so the detector costs nothing while calls are quick. A slow call counts
// against the store only if the goroutine ran from the beginning of the call and was
// never late during it. The cost is that the first slow calls are always excused.
type stallDetector struct {
	background *background
	epoch      time.Time

	watching atomic.Bool
	since    atomic.Int64 // when the watch began; all times in nanoseconds from epoch
	until    atomic.Int64 // when the watch ends, unless another call is slow
	checked  atomic.Int64 // the last check
	lateAt   atomic.Int64 // the last check that was late
}

const (
	watchEvery = 2 * time.Millisecond
	watchFor   = 3 * time.Second
	lateness   = time.Millisecond // above the usual lateness of a timer
)

func (d *stallDetector) init(b *background) { d.background, d.epoch = b, time.Now() }

func (d *stallDetector) now() int64 { return int64(time.Since(d.epoch)) }

// excuses reports whether a slow call that ends now may be slow because of this
// process. It starts the watch if there is none.
func (d *stallDetector) excuses(took time.Duration) bool {
	now := d.now()
	d.until.Store(now + int64(watchFor))
	if d.watching.CompareAndSwap(false, true) {
		d.since.Store(now)
		d.checked.Store(now)
		d.background.run(d.watch)
		return true
	}
	began := now - int64(took)
	return d.since.Load() > began || d.lateAt.Load() > began || tooLong(now-d.checked.Load())
}

// watch checks every watchEvery until no call has been slow for watchFor.
func (d *stallDetector) watch(ctx context.Context) {
	answer, end := echo()
	defer end()
	for d.checked.Load() < d.until.Load() {
		if !pause(ctx, watchEvery) {
			return
		}
		answer()
		d.check(d.now())
	}
	d.watching.Store(false)
}

// echo returns a function that waits for an immediate answer through a pipe, as a
// caller waits for a store. A timer alone is not enough: while all processors are
// busy the scheduler polls the network last, so timers fire on time while answers
// are late. Without a pipe the function is a no-op.
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

// check records a check, and whether it is too long after the last one.
func (d *stallDetector) check(now int64) {
	if tooLong(now - d.checked.Load()) {
		d.lateAt.Store(now)
	}
	d.checked.Store(now)
}

func tooLong(slept int64) bool { return slept > int64(watchEvery+lateness) }
