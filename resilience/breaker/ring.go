package breaker

import "sync/atomic"

// ring is how the last calls ended. Adding needs no lock: whoever swaps a call
// into a place takes the one that was there out of the sums.
type ring struct {
	ended    atomic.Uint64   // calls, ever
	places   []atomic.Uint32 // of a call: failedBit, slowBit
	failures atomic.Int64
	slow     atomic.Int64
}

const (
	failedBit = 1 << iota
	slowBit
)

func newRing(calls int) *ring { return &ring{places: make([]atomic.Uint32, calls)} }

// add puts a call in the place of the oldest.
func (r *ring) add(failed, slow bool) {
	call := bit(failed, failedBit) | bit(slow, slowBit)
	place := &r.places[(r.ended.Add(1)-1)%uint64(len(r.places))]
	if place.Load() == call {
		return // nearly always; a swap would take the line from the other processors
	}
	if old := place.Swap(call); old != call {
		r.failures.Add(int64(call&failedBit) - int64(old&failedBit))
		r.slow.Add((int64(call&slowBit) - int64(old&slowBit)) / slowBit)
	}
}

func bit(set bool, b uint32) uint32 {
	if set {
		return b
	}
	return 0
}

func (r *ring) counts() Counts {
	return Counts{
		Calls:    int(min(r.ended.Load(), uint64(len(r.places)))),
		Failures: int(r.failures.Load()),
		Slow:     int(r.slow.Load()),
	}
}
