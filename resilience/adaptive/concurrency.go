package adaptive

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
)

// Options says between what bounds a limit moves, and by what. The zero value
// is a [Gradient] from 20, between 1 and 1000.
type Options struct {
	// Algorithm moves the limit. It belongs to one Concurrency. Defaults to
	// a *Gradient.
	Algorithm Algorithm

	// Initial is the limit to begin with. Defaults to 20, or to all that a
	// *CPU scales, or to what is nearest between Min and Max.
	Initial int

	// Min and Max bound the limit. They default to 1 and 1000, Max to more
	// where Min or what a *CPU scales is more.
	Min, Max int

	// Window is how long calls are gathered for one step of the algorithm:
	// so long and ten calls at least, or ten times as long where there are
	// fewer. Defaults to 100 ms.
	Window time.Duration

	// Clock returns the time that has passed since any fixed moment. It never
	// runs back. Defaults to the monotonic clock.
	Clock func() time.Duration
}

// Algorithm says how a limit of calls in flight moves. It is asked by one
// goroutine at a time.
type Algorithm interface {
	// Next returns the limit after a window, given the one in it. What is
	// outside of the bounds, or no number, is brought between them.
	Next(limit float64, w Window) float64
}

// Window is what was seen of the calls that were answered in one window.
type Window struct {
	Calls    int           // at least 1
	Dropped  int           // of those
	Latency  time.Duration // the mean of the others; 0 when there are none
	InFlight int           // the most that were in flight at once
}

// dropped is their share of the calls.
func (w *Window) dropped() float64 { return float64(w.Dropped) / float64(max(1, w.Calls)) }

// calls is how many calls a window should have.
const calls = 10

// Concurrency is a [Gate] that bounds the calls in flight. Make one with
// [New]; the zero value is one of the zero Options.
type Concurrency struct {
	options Options

	mu     sync.Mutex
	limit  float64 // guarded by mu, as all below
	usage  Usage   // Limit is filled in when asked
	window Window  // Latency is filled in at its end
	sum    time.Duration
	since  time.Duration // when the window began
}

// New returns a gate with nothing in flight. The error names every option that
// cannot be.
func New(o Options) (*Concurrency, error) {
	o.setDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	c := &Concurrency{}
	c.startLocked(o)
	return c, nil
}

func (c *Concurrency) startLocked(o Options) {
	c.options, c.limit, c.since = o, o.bounded(float64(o.Initial)), o.Clock()
}

// startZeroLocked starts a gate that New did not make.
func (c *Concurrency) startZeroLocked() {
	if c.options.Algorithm == nil {
		var o Options
		o.setDefaults()
		c.startLocked(o)
	}
}

func (o *Options) setDefaults() {
	if o.Algorithm == nil {
		o.Algorithm = &Gradient{}
	}
	initial := 20
	if c, ok := o.Algorithm.(*CPU); ok {
		initial = c.full
	}
	orDefault(&o.Min, 1)
	orDefault(&o.Max, max(o.Min, initial, 1000))
	orDefault(&o.Initial, min(max(initial, o.Min), o.Max))
	orDefault(&o.Window, 100*time.Millisecond)
	if o.Clock == nil {
		o.Clock = monotonic()
	}
}

func orDefault[T int | float64 | time.Duration](v *T, otherwise T) {
	if *v == 0 {
		*v = otherwise
	}
}

func monotonic() func() time.Duration {
	base := time.Now()
	return func() time.Duration { return time.Since(base) }
}

func (o *Options) check() error {
	return errors.Join(
		unless(o.Min >= 1, "Min: is %d; use at least 1", o.Min),
		unless(o.Max >= o.Min, "Max: %d is less than Min, %d", o.Max, o.Min),
		unless(o.Initial >= o.Min && o.Initial <= o.Max, "Initial: %d is not between %d and %d", o.Initial, o.Min, o.Max),
		unless(o.Window > 0, "Window: is %v; use a time above 0", o.Window),
		o.checkAlgorithm(),
	)
}

// checkAlgorithm is of the algorithms of this package, whose fields anyone sets.
func (o *Options) checkAlgorithm() error {
	if a, ok := o.Algorithm.(interface{ check() error }); ok {
		return a.check()
	}
	return nil
}

// bounded brings a limit between Min and Max, and to where a float64 has every
// whole number.
func (o *Options) bounded(limit float64) float64 {
	const most = 1 << 53
	return min(max(limit, float64(o.Min)), float64(o.Max), most)
}

func unless(right bool, format string, args ...any) error {
	if right {
		return nil
	}
	return fmt.Errorf("adapt: "+format, args...)
}

// Enter lets a call in while fewer than the limit are in flight.
func (c *Concurrency) Enter() (Call, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.startZeroLocked()
	if c.usage.InFlight >= int(c.limit) {
		c.usage.Shed++
		return Call{}, false
	}
	c.usage.InFlight++
	c.usage.Admitted++
	c.window.InFlight = max(c.window.InFlight, c.usage.InFlight)
	return Call{gate: c, start: c.options.Clock()}, true
}

func (c *Concurrency) answer(call Call, o Outcome) {
	if o == Ignored {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.options.Clock()
	c.window.Calls++
	if o == Dropped {
		c.window.Dropped++
	} else {
		c.sum += max(0, now-call.start)
	}
	if c.overLocked(now) {
		c.stepLocked(now)
	}
}

func (c *Concurrency) overLocked(now time.Duration) bool {
	took := now - c.since
	return took >= c.options.Window && c.window.Calls >= calls || took >= calls*c.options.Window
}

// stepLocked ends a window.
func (c *Concurrency) stepLocked(now time.Duration) {
	w := c.window
	w.Latency = c.sum / time.Duration(max(1, w.Calls-w.Dropped))
	next := c.options.Algorithm.Next(c.limit, w)
	if math.IsNaN(next) {
		next = c.limit
	}
	c.limit = c.options.bounded(next)
	c.window, c.sum, c.since = Window{InFlight: c.usage.InFlight}, 0, now
}

func (c *Concurrency) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.usage.InFlight--
}

func (c *Concurrency) now() time.Duration { return c.options.Clock() }

// Usage is how a [Concurrency] is used now, and what it did since it was made.
type Usage struct {
	Limit    int
	InFlight int
	Admitted int64
	Shed     int64
}

// Usage returns the usage now.
func (c *Concurrency) Usage() Usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.startZeroLocked()
	u := c.usage
	u.Limit = int(c.limit)
	return u
}
