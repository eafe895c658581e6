// Package burst lets the writes of many goroutines follow each other in bursts.
//
// The problem: a write to a socket wakes the process that reads it. If that process sleeps on
// an idle processor, waking it takes several times as long as the write itself, above all on
// virtual machines. A proxy that decides, parses and formats between two writes gives the
// peer just enough time to fall asleep again, so nearly every write pays for a wake-up: half
// of the processor time of a small request.
//
// The approach: while the server is busy, a goroutine yields before it writes. The others
// that can run get as far as their own writes, or wait for their peers. Then all write one
// after the other, with nothing in between. The first write wakes the peer, and the others
// find it awake.
//
// The trade-off: a write waits until the other goroutines that can run have had their turn,
// each of which takes microseconds, or up to 10 ms if it computes for long. A server with one request at a time gains nothing, and a
// yield could wake another processor. So a goroutine yields only if the write before was a
// moment ago (see near).
package burst

import (
	"runtime"
	"sync/atomic"
	"time"
)

// near is the longest time between two writes of a processor after which the second yields.
// Writes are as near as that once requests without a body take about a fifth of a processor.
const near = 100 * time.Microsecond

// Writes are writes of one kind. Make them with [New]. They are safe for concurrent use.
type Writes struct {
	began time.Time
	near  int64
	last  atomic.Int64 // since began, in nanoseconds
}

// New returns the writes of goroutines that share all processors.
func New() *Writes {
	return &Writes{began: time.Now(), near: int64(near) / int64(runtime.GOMAXPROCS(0))}
}

// Await is called before each write. It yields if the server is busy.
func (w *Writes) Await() {
	now := int64(time.Since(w.began))
	if now-w.last.Swap(now) < w.near {
		runtime.Gosched()
	}
}
