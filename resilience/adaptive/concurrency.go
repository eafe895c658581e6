package adaptive

import (
	"cmp"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/stintdev/stint/resilience/internal/check"
	"github.com/stintdev/stint/resilience/internal/monotonic"
)

// Options configures a [Concurrency]. The zero value is a [Gradient] that starts at 20
// and stays between 1 and 1000.
type Options struct {
	// Algorithm computes the limit. It must not be shared between Concurrencies. Defaults
	// to a *Gradient.
	Algorithm Algorithm

	// Initial is the first limit. Defaults to 20, or to Full for a *CPU. It is raised to Min or
	// lowered to Max if it is outside of them.
	Initial int

	// Min and Max bound the limit. They default to 1 and 1000. Max defaults to more where
	// Min or the Full of a *CPU is more.
	Min, Max int

	// Window is how long calls are measured for one step of the algorithm. A window lasts
	// until it has at least ten calls, but at most ten times Window. Defaults to 100 ms.
	Window time.Duration

	// Clock returns the time and must never go back. Defaults to time.Now.
	Clock func() time.Time
}

// Algorithm computes the limit of calls in flight. A Concurrency calls it from one
// goroutine at a time.
type Algorithm interface {
	// Next returns the limit that follows a window, given the limit in force during it.
	// The caller brings the result between Min and Max; NaN leaves the limit as it was.
	Next(limit float64, w Window) float64
}

// Window is the measurement of the calls that were answered in one window.
type Window struct {
	Calls    int           // at least 1
	Failures int           // how many of Calls failed because of overload
	Latency  time.Duration // mean of the other calls; 0 if all failed
	InFlight int           // maximum in flight at once
}

// failed returns the share of calls that failed because of overload.
func (w *Window) failed() float64 { return float64(w.Failures) / float64(max(1, w.Calls)) }

// calls is the number of calls that a window should have.
const calls = 10

// Concurrency is a [Gate] that bounds the calls in flight. Make one with [New]; the zero
// value behaves like New(Options{}), and a nil *Concurrency admits every call.
type Concurrency struct {
	options Options
	clock   monotonic.Clock

	mu     sync.Mutex
	limit  float64 // guarded by mu, as all below
	usage  Usage   // Limit is set by Usage
	window Window  // Latency is set when the window ends
	sum    time.Duration
	since  time.Duration // when the window began
}

// New returns a gate with no calls in flight. The error lists every invalid option.
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
	c.options, c.clock, c.limit = o, monotonic.New(o.Clock), o.bounded(float64(o.Initial))
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
		initial = c.atLowLoad()
	}
	o.Min = cmp.Or(o.Min, 1)
	o.Max = cmp.Or(o.Max, max(o.Min, initial, 1000))
	o.Initial = cmp.Or(o.Initial, min(max(initial, o.Min), o.Max))
	o.Window = cmp.Or(o.Window, 100*time.Millisecond)
}

func (o *Options) check() error {
	return errors.Join(
		check.Unless(o.Min >= 1, "adaptive: Min: is %d; use at least 1", o.Min),
		check.Unless(o.Max >= o.Min, "adaptive: Max: %d is less than Min, %d", o.Max, o.Min),
		check.Unless(o.Initial >= o.Min && o.Initial <= o.Max, "adaptive: Initial: %d is not between %d and %d", o.Initial, o.Min, o.Max),
		check.Unless(o.Window > 0, "adaptive: Window: is %v; use a time above 0", o.Window),
		o.checkAlgorithm(),
	)
}

// checkAlgorithm checks the algorithms of this package, whose fields are exported.
func (o *Options) checkAlgorithm() error {
	if a, ok := o.Algorithm.(interface{ check() error }); ok {
		return a.check()
	}
	return nil
}

// bounded brings a limit between Min and Max, and at most to 2^53, below which float64
// represents every integer.
func (o *Options) bounded(limit float64) float64 {
	const most = 1 << 53
	return min(max(limit, float64(o.Min)), float64(o.Max), most)
}

// Begin admits a call while fewer calls than the limit are in flight.
func (c *Concurrency) Begin() (Call, bool) {
	if c == nil {
		return Call{}, true
	}
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
	return Call{gate: c, start: c.clock.Now()}, true
}

func (c *Concurrency) answer(call Call, o Outcome) {
	if o == Ignored {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	c.window.Calls++
	if o == Failure {
		c.window.Failures++
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
	w.Latency = c.sum / time.Duration(max(1, w.Calls-w.Failures))
	next := c.options.Algorithm.Next(c.limit, w)
	if math.IsNaN(next) {
		next = c.limit
	}
	c.limit = c.options.bounded(next)
	c.window, c.sum, c.since = Window{InFlight: c.usage.InFlight}, 0, now
}

func (c *Concurrency) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.usage.InFlight--
}

func (c *Concurrency) now() time.Duration { return c.clock.Now() }

// Usage is the current use of a [Concurrency] and its counts since it was made.
type Usage struct {
	Limit    int
	InFlight int
	Admitted int64
	Shed     int64
}

// Usage returns the current usage.
func (c *Concurrency) Usage() Usage {
	if c == nil {
		return Usage{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.startZeroLocked()
	u := c.usage
	u.Limit = int(c.limit)
	return u
}
