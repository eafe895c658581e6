package stint

import (
	"math/bits"
	"time"
)

// counter is nanoseconds by the processor's cycle counter, whose rate is
// measured against the monotonic clock.
type counter struct {
	cycles uint64 // when nanos were 0
	zero   int64
	scale  uint64 // nanoseconds a cycle, in 2^-64
}

// measureFor is how long the counter's rate is measured when a clock starts.
// What that is off by, some parts in 10^5, the resync of each second mends.
const measureFor = 2 * time.Millisecond

// startCounter measures the counter against monotonic time since base. It
// returns nil when the counter is slower than a nanosecond a cycle, or stands.
func startCounter(base time.Time) *counter {
	c0, t0 := cycles(), time.Since(base)
	t1 := t0
	for t1 < t0+measureFor {
		t1 = time.Since(base)
	}
	passed, elapsed := cycles()-c0, uint64(t1-t0)
	if passed <= elapsed {
		return nil
	}
	scale, _ := bits.Div64(elapsed, 0, passed)
	return &counter{cycles: c0, zero: int64(t0), scale: scale}
}

// nanos is the time since base.
func (k *counter) nanos() int64 {
	n, _ := bits.Mul64(cycles()-k.cycles, k.scale)
	return k.zero + int64(n)
}
