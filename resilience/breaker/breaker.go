package breaker

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint/resilience/internal/monotonic"
)

// Breaker lets calls through or refuses them. Make one with [New]; the zero value behaves
// like New(Options{}), and a nil *Breaker lets every call through and counts none. It is
// safe for concurrent use.
type Breaker struct {
	options Options
	slow    int64 // nanoseconds; 0: no call is slow
	clock   monotonic.Clock

	word   atomic.Uint64 // holds a word; written under mu
	until  atomic.Int64  // when an open breaker lets a probe through, in time of now; written under mu
	window window

	mu        sync.Mutex
	openFor   int64 // guarded by mu, as all below: length of the last open period, in ns
	since     int64 // when the state last changed or lost probes were last replaced
	probing   int   // probes let through since then
	probed    int64 // when the newest of them began
	succeeded int   // probes that succeeded
}

// New returns a closed breaker. The error lists every invalid option.
func New(o Options) (*Breaker, error) {
	o.setDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	b := &Breaker{}
	b.startLocked(o)
	return b, nil
}

// startLocked sets the options of a new breaker and closes it. From then on its word is
// not 0.
func (b *Breaker) startLocked(o Options) {
	b.options, b.slow = o, int64(o.SlowAfter)
	b.window.width, b.window.calls = int64(o.Window)/parts, o.WindowCalls
	if o.CoarseClock != nil {
		b.clock = monotonic.Of(o.CoarseClock.elapsed)
		b.since = b.now()
	} else {
		b.clock = monotonic.New(o.Clock) // it begins at 0
	}
	closed := word(0).next(Closed)
	b.window.renewLocked(closed, b.since)
	b.word.Store(uint64(closed))
}

// started returns the current word. It first starts a breaker that is still the zero
// value.
func (b *Breaker) started() word {
	if w := b.load(); w != 0 {
		return w
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.load() == 0 {
		var o Options
		o.setDefaults()
		b.startLocked(o)
	}
	return b.load()
}

// now returns the time since a fixed moment, in nanoseconds.
func (b *Breaker) now() int64 {
	return int64(b.clock.Now())
}

func (b *Breaker) load() word { return word(b.word.Load()) }

// State returns the state. A breaker whose open period has passed is still Open: the next
// call makes it half-open. A nil breaker is [Disabled].
func (b *Breaker) State() State {
	if b == nil {
		return Disabled
	}
	return b.load().state()
}

// Counts returns the results of the calls in the window. Every change of state, and
// Reset, begins a new window.
func (b *Breaker) Counts() Counts {
	if b == nil {
		return Counts{}
	}
	b.started()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.window.countsLocked(b.now())
}

// RetryAfter returns how long an open breaker will still refuse calls. It returns
// MaxOpenFor in state [ForcedOpen], which lasts until Reset, and 0 in every other state.
func (b *Breaker) RetryAfter() time.Duration {
	switch b.State() {
	case Open:
		return time.Duration(max(0, b.until.Load()-b.now()))
	case ForcedOpen:
		return b.options.MaxOpenFor
	}
	return 0
}

// ForceOpen refuses every call until Reset.
func (b *Breaker) ForceOpen() { b.force(ForcedOpen) }

// Disable lets every call through and counts none, until Reset.
func (b *Breaker) Disable() { b.force(Disabled) }

// Reset closes the breaker from any state and clears its counts.
func (b *Breaker) Reset() { b.force(Closed) }

func (b *Breaker) force(s State) {
	if b == nil {
		return
	}
	b.started()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.openFor = 0
	b.changeLocked(s, ReasonCaller, b.now())
}

// changeLocked changes the state and clears the counts. It renews the window before it
// stores the new word, so that the new window exists before any call of the new state can
// end.
func (b *Breaker) changeLocked(to State, why Reason, now int64) {
	w := b.load()
	tell := b.options.OnChange != nil && to != w.state()
	c := Change{From: w.state(), To: to, Reason: why}
	if tell {
		c.Counts = b.window.countsLocked(now)
	}
	b.since, b.probing, b.succeeded = now, 0, 0
	b.window.renewLocked(w.next(to), now)
	b.word.Store(uint64(w.next(to)))
	if tell {
		if to == Open {
			c.OpenFor = time.Duration(b.openFor)
		}
		b.options.OnChange(c)
	}
}

// openLocked opens the breaker. The open period grows if the breaker opened not long ago.
func (b *Breaker) openLocked(why Reason, now int64) {
	b.openFor = b.nextOpenForLocked(now)
	b.until.Store(after(now, b.openFor))
	b.changeLocked(Open, why, now)
}

func (b *Breaker) nextOpenForLocked(now int64) int64 {
	if recovered := b.State() == Closed && b.settledLocked(now); recovered || b.openFor == 0 {
		return int64(b.options.OpenFor)
	}
	if longer := float64(b.openFor) * b.options.Growth; longer < float64(b.options.MaxOpenFor) {
		return int64(longer)
	}
	return int64(b.options.MaxOpenFor)
}

// after returns now + while, or the greatest int64 if that overflows.
func after(now, while int64) int64 { return now + min(while, math.MaxInt64-now) }

// settledLocked reports whether the state has lasted for a whole window.
func (b *Breaker) settledLocked(now int64) bool {
	if n := b.options.WindowCalls; n > 0 {
		return b.window.countsLocked(now).Calls >= n
	}
	return now-b.since >= int64(b.options.Window)
}
