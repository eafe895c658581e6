package breaker

import (
	"math"
	"sync/atomic"
)

// parts is how many parts a window has. The oldest part expires as a whole.
const parts = 10

// part counts the calls that ended in one tenth of a window. It is padded to a cache line
// of its own, because every call writes to it.
type part struct {
	run      *run
	number   int64 // time since the clock's zero, in parts
	until    int64 // when it ends, on the breaker's clock
	calls    atomic.Uint64
	failures atomic.Uint64
	slow     atomic.Uint64
	seen     atomic.Int64 // when a call ended recently; set only if crowded and SlowAfter is set; 0: unknown
	_        [8]byte
}

// crowd is how many calls in a part make it crowded. In a crowded part most calls do not
// read the clock.
const crowd = 1000

func (p *part) crowded() bool {
	if r := p.run.ring; r != nil {
		return r.ended.Load() >= crowd
	}
	return p.calls.Load() >= crowd
}

// run is the state that all parts between two changes of the breaker's state share. A
// call counts only in the run in which it began.
type run struct {
	word   word
	ring   *ring        // nil: the parts count
	inARow atomic.Int64 // failures since the last success

	timeAllUntil atomic.Int64 // until then, every call reads the clock when it begins
}

// window holds the parts of the last Window. Counting needs no lock: a result that
// arrives just after a part has ended still counts in that part, and a result of a run
// that has ended is discarded.
//
// A window of calls is one part that never ends; its run counts in a ring.
type window struct {
	width   int64
	calls   int // 0: the window is a time
	current atomic.Pointer[part]
	past    [parts]*part // by number; guarded by the breaker's lock
}

// renewLocked clears all counts and begins the run of a word.
func (w *window) renewLocked(in word, now int64) {
	w.past = [parts]*part{}
	r := &run{word: in}
	if w.calls > 0 && in.state() == Closed { // calls count in the window only while closed
		r.ring = newRing(w.calls)
	}
	w.beginLocked(r, now)
}

// advanceLocked begins the part that contains now, unless another goroutine did.
func (w *window) advanceLocked(now int64) {
	if p := w.current.Load(); now >= p.until {
		w.beginLocked(p.run, now)
	}
}

func (w *window) beginLocked(r *run, now int64) {
	n := now / w.width
	p := &part{run: r, number: n, until: (n + 1) * w.width}
	if w.calls > 0 {
		p.until = math.MaxInt64
	}
	w.past[n%parts] = p
	w.current.Store(p)
}

// Counts are the results of the calls in the window.
type Counts struct {
	Calls    int // all calls
	Failures int
	Slow     int // calls that took at least SlowAfter, failed or not
}

// countsLocked sums the parts that are still in the window.
func (w *window) countsLocked(now int64) (c Counts) {
	if r := w.current.Load().run.ring; r != nil {
		return r.counts()
	}
	oldest := now/w.width - parts
	for _, p := range w.past {
		if p != nil && p.number > oldest {
			c.Calls += int(p.calls.Load())
			c.Failures += int(p.failures.Load())
			c.Slow += int(p.slow.Load())
		}
	}
	return c
}

// sightings is how many times per SlowAfter a crowded part stores the time. Storing it at
// every call would cost more than the read of the clock that it saves.
const sightings = 1024

// note stores the time at which a call ended, in a crowded part.
func (p *part) note(now, slow int64) {
	if seen := p.seen.Load(); (now-seen >= slow/sightings || seen == 0) && p.crowded() {
		p.seen.Store(now)
	}
}

// lately returns when a call ended recently, as the beginning of a call that starts now.
// This saves a read of the clock and still shows for nearly every call that it was not
// slow. It returns 0 when no such time is known.
func (p *part) lately() int64 {
	seen := p.seen.Load()
	if seen < p.run.timeAllUntil.Load() {
		return 0
	}
	return seen
}

// count adds a call. It returns the number of calls in the part, or 0 for a ring.
func (p *part) count(failed, slow bool) (n uint64) {
	if r := p.run.ring; r != nil {
		r.add(failed, slow)
	} else {
		n = p.add(failed, slow)
	}
	return n
}

// continueRow counts a consecutive failure; a success resets the count.
func (r *run) continueRow(failed bool) {
	if failed {
		r.inARow.Add(1)
	} else if r.inARow.Load() != 0 {
		r.inARow.Store(0)
	}
}

func (p *part) add(failed, slow bool) uint64 {
	if failed {
		p.failures.Add(1)
	}
	if slow {
		p.slow.Add(1)
	}
	return p.calls.Add(1)
}

// ring holds the results of the last calls. Adding needs no lock: the goroutine that
// swaps a result into a place subtracts the previous result from the sums.
type ring struct {
	ended    atomic.Uint64   // calls since the ring was made
	places   []atomic.Uint32 // for each call, failedBit and slowBit
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
