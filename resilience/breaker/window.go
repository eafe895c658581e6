package breaker

import (
	"math"
	"sync/atomic"
)

// parts is how many parts a window has. The oldest leaves whole.
const parts = 10

// part counts the calls that ended in one tenth of a window. It has a line of
// the processor's cache to itself, because every call writes to it.
type part struct {
	run      *run
	number   int64 // how many tenths since time began
	until    int64 // when it ends, on the breaker's clock
	calls    atomic.Uint64
	failures atomic.Uint64
	slow     atomic.Uint64
	seen     atomic.Int64 // when a call of a crowd ended lately, where calls can be slow; 0: none did
	_        [8]byte
}

// crowd is how many calls make a part so busy that the clock is spared.
const crowd = 1000

func (p *part) crowded() bool {
	if r := p.run.ring; r != nil {
		return r.ended.Load() >= crowd
	}
	return p.calls.Load() >= crowd
}

// run is what the parts between two changes of state share. Calls that began
// before or after count in another.
type run struct {
	word   word
	ring   *ring        // nil: the parts count
	inARow atomic.Int64 // failures since the last success

	timeAllUntil atomic.Int64 // until then no call is taken for quick untimed
}

// window is the parts of the last while. Counting needs no lock: who reports
// to a part that has just ended still counts in it, and who reports to a run
// that has ended counts in none.
//
// A window by calls is one part without end, whose run counts in a ring.
type window struct {
	width   int64
	calls   int // 0: the window is a time
	current atomic.Pointer[part]
	past    [parts]*part // by number; guarded by the breaker's lock
}

// renewLocked forgets all counts and begins the run of a word.
func (w *window) renewLocked(in word, now int64) {
	w.past = [parts]*part{}
	r := &run{word: in}
	if w.calls > 0 && in.state() == Closed { // in no other state do calls count in it
		r.ring = newRing(w.calls)
	}
	w.beginLocked(r, now)
}

// advanceLocked begins the part that now is in, unless somebody did.
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

// Counts is how the calls in the window ended.
type Counts struct {
	Calls    int // all of them
	Failures int
	Slow     int // those that took at least SlowAfter, failed or not
}

// countsLocked sums the parts that are not too old.
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

// sightings is how often a crowd notes the time in each SlowAfter: a note at
// every call would cost more than the call's look at the clock.
const sightings = 1024

// note remembers when calls end in a crowd where they can be slow.
func (p *part) note(now, slow int64) {
	if seen := p.seen.Load(); (now-seen >= slow/sightings || seen == 0) && p.crowded() {
		p.seen.Store(now)
	}
}

// lately is when a call of a crowd ended that is as good as the time for one
// that begins: it saves a look at the clock, and tells of nearly all calls that
// they are not slow. It is 0 when there is none.
func (p *part) lately() int64 {
	seen := p.seen.Load()
	if seen < p.run.timeAllUntil.Load() {
		return 0
	}
	return seen
}

// count adds a call, and returns how many the part then has, or 0 for a ring.
func (p *part) count(failed, slow bool) (n uint64) {
	if r := p.run.ring; r != nil {
		r.add(failed, slow)
	} else {
		n = p.add(failed, slow)
	}
	return n
}

// continueRow adds a failure to the row, which a success ends.
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
