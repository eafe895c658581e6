package failuretest

import "time"

// thread is what a thread has used and done so far.
type thread struct {
	id    int           // 0: the system does not tell
	ran   time.Duration // on a processor
	waits int64         // how often it gave its processor up to wait
}

// ranSince is for how long a caller ran that has neither waited nor changed its
// thread since then. What it took beyond that, the kernel gave to others: it
// is no time of the caller's.
func (now thread) ranSince(then thread) (ran time.Duration, ok bool) {
	return now.ran - then.ran, now.id != 0 && now.id == then.id && now.waits == then.waits
}
