package breaker

import "sync/atomic"

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
	_        [16]byte
}

// run is what the parts between two changes of state share. Calls that began
// before or after count in another.
type run struct {
	word   word
	inARow atomic.Int64 // failures since the last success
}

// window is the parts of the last while. Counting needs no lock: who reports
// to a part that has just ended still counts in it, and who reports to a run
// that has ended counts in none.
type window struct {
	width   int64
	current atomic.Pointer[part]
	past    [parts]*part // by number; guarded by the breaker's lock
}

// renewLocked forgets all counts and begins the run of a word.
func (w *window) renewLocked(in word, now int64) {
	w.past = [parts]*part{}
	w.beginLocked(&run{word: in}, now)
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

// count adds a call.
func (p *part) count(failed, slow bool) {
	p.calls.Add(1)
	switch {
	case failed:
		p.failures.Add(1)
		p.run.inARow.Add(1)
	case p.run.inARow.Load() != 0:
		p.run.inARow.Store(0)
	}
	if slow {
		p.slow.Add(1)
	}
}
