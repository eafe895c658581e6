package retrybudget

import (
	"cmp"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/stintdev/stint/resilience/internal/check"
	"github.com/stintdev/stint/resilience/internal/monotonic"
	"github.com/stintdev/stint/resilience/internal/tenths"
)

// Options configures a [Budget]. The zero value grants one retry for ten requests plus
// one per second, over 10 s.
type Options struct {
	// Share is the number of retries per request, above 0, at most 1. Defaults to 0.1.
	// NoShare: none.
	Share float64

	// PerSecond is the number of retries per second in addition to Share, so that clients
	// with few requests can retry. The allowance is for the whole window: at 1 per second
	// over 10 s, ten retries may come at once. Defaults to 1. NoShare: none.
	PerSecond float64

	// Window is the time over which requests and retries are counted, to a precision of a
	// tenth. Defaults to 10 s; at least 10 ns.
	Window time.Duration

	// Clock returns the time and must never go back. Defaults to time.Now.
	Clock func() time.Time
}

// NoShare turns off Share or PerSecond.
const NoShare = -1

// Budget counts requests and grants retries. Make one with [New]; the zero value behaves
// like New(Options{}), and a nil *Budget grants every retry. It is safe for concurrent
// use.
type Budget struct {
	share float64
	least float64 // retries in a window without any request
	width time.Duration
	clock monotonic.Clock

	mu     sync.Mutex
	window tenths.Window // guarded by mu
}

// The kinds of events in the window.
const (
	requests = iota
	retries
)

// New returns a budget that has counted nothing. The error lists every invalid option.
func New(o Options) (*Budget, error) {
	o.setDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	b := &Budget{}
	b.start(o)
	return b, nil
}

func (b *Budget) start(o Options) {
	b.share = max(0, o.Share)
	b.least = max(0, o.PerSecond) * o.Window.Seconds()
	b.width = o.Window / tenths.Parts
	b.clock = monotonic.New(o.Clock)
}

func (o *Options) setDefaults() {
	o.Share = cmp.Or(o.Share, 0.1)
	o.PerSecond = cmp.Or(o.PerSecond, 1)
	o.Window = cmp.Or(o.Window, 10*time.Second)
}

func (o *Options) check() error {
	return errors.Join(
		check.Unless(o.Share == NoShare || o.Share > 0 && o.Share <= 1, "retrybudget: Share: is %v; use a share above 0, at most 1, or NoShare", o.Share),
		check.Unless(o.PerSecond == NoShare || o.PerSecond > 0 && o.PerSecond < math.Inf(1), "retrybudget: PerSecond: is %v; use a rate above 0, or NoShare", o.PerSecond),
		check.Unless(o.Window >= tenths.Parts, "retrybudget: Window: is %v; use at least %v", o.Window, time.Duration(tenths.Parts)),
	)
}

// Request counts the first attempt of a request, not its retries.
func (b *Budget) Request() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advanceLocked()
	b.window.Add(requests)
}

// Retry takes one retry from the budget, and reports whether there was one.
func (b *Budget) Retry() bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advanceLocked()
	if b.leftLocked() < 1 {
		return false
	}
	b.window.Add(retries)
	return true
}

// Refund returns a retry that was granted but not sent. It does nothing when the window
// holds no retry.
func (b *Budget) Refund() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advanceLocked()
	b.window.Remove(retries)
}

// Usage holds the counts of a budget's window.
type Usage struct {
	Requests int64
	Retries  int64
	Left     int64 // retries that would be granted now
}

// Usage returns the current usage.
func (b *Budget) Usage() Usage {
	if b == nil {
		return Usage{Left: math.MaxInt64 / 2}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advanceLocked()
	left := min(b.leftLocked(), math.MaxInt64/2)
	return Usage{Requests: b.window.Sum[requests], Retries: b.window.Sum[retries], Left: int64(max(0, left))}
}

// rounding is far greater than the binary rounding error of a share, and far less than a
// retry.
const rounding = 1e-9

func (b *Budget) leftLocked() float64 {
	return b.share*float64(b.window.Sum[requests]) + b.least + rounding - float64(b.window.Sum[retries])
}

// advanceLocked moves the window to the current time.
func (b *Budget) advanceLocked() {
	if !b.clock.Made() {
		var o Options
		o.setDefaults()
		b.start(o)
	}
	b.window.Advance(int64(b.clock.Now() / b.width))
}
