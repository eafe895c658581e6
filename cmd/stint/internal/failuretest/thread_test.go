package failuretest

import "time"

// thread is the usage of a thread since its start.
type thread struct {
	id    int           // 0: unknown
	ran   time.Duration // time on a processor
	waits int64         // number of waits
}

// ranSince returns the processor time since then of a caller that has neither waited nor
// changed its thread. The rest of the elapsed time, the kernel ran other threads.
func (now thread) ranSince(then thread) (ran time.Duration, ok bool) {
	return now.ran - then.ran, now.id != 0 && now.id == then.id && now.waits == then.waits
}
