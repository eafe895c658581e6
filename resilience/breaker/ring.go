package breaker

import "sync/atomic"

// ring holds the results of the last calls. Adding needs no lock: the goroutine that
// swaps a result into a place subtracts the previous result from the sums.
type ring struct {
	ended    atomic.Uint64   // calls since the ring was made
	places   []atomic.Uint32 // failedBit and slowBit of one call
	failures atomic.Int64
	slow     atomic.Int64
}

const (
	failedBit = 1 << iota
	slowBit
)

func newRing(calls int) *ring { return &ring{places: make([]atomic.Uint32, calls)} }

// add replaces the oldest result.
func (r *ring) add(failed, slow bool) {
	call := bit(failed, failedBit) | bit(slow, slowBit)
	place := &r.places[(r.ended.Add(1)-1)%uint64(len(r.places))]
	if place.Load() == call {
		return // the common case; a swap would invalidate the cache line for the other processors
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
