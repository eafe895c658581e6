package breaker

import (
	"cmp"
	"errors"
	"math"
	"time"

	"github.com/stintdev/stint/resilience/internal/check"
)

// Options says when a [Breaker] opens, for how long, and how it closes again. The zero
// value opens for 1 s when half of at least 20 calls in 10 s failed, and then lets one
// probe through.
type Options struct {
	// ConsecutiveFailures opens the breaker after this many failures without a success
	// between them, over any time. Zero: never.
	ConsecutiveFailures int

	// FailureRatio opens the breaker when a call fails and at least this share of the
	// calls in the window failed; above 0, at most 1. Zero: never. It defaults to 0.5 if
	// ConsecutiveFailures and SlowRatio are both zero.
	FailureRatio float64

	// MinimumCalls is the number of calls in the window below which FailureRatio does not
	// apply. Defaults to 20, or to WindowCalls if that is less.
	MinimumCalls int

	// SlowRatio opens the breaker when a call is slow and at least this share of the
	// calls in the window were slow; above 0, at most 1. For example, 0.01 opens it when
	// the 99th percentile exceeds SlowAfter. It applies once the breaker has been closed
	// for a whole window, so that neither the first connections nor a short burst open
	// it. Zero: never.
	SlowRatio float64

	// SlowAfter is the duration from which a call counts as slow, whether it failed or
	// not. SlowRatio requires it; without SlowRatio, slow calls are counted and have no
	// effect. Zero: no call is slow.
	//
	// To spare reads of the clock, a breaker under high load approximates. Once a tenth
	// of the Window (or WindowCalls) has seen 1000 calls, each call's beginning is taken
	// to be the end of a recent call, or up to a thousandth of SlowAfter earlier. A call
	// that seems slow by this estimate is not counted as slow; instead every call is
	// timed exactly for the next Window. The cost: when a dependency becomes slow, the
	// calls then in flight are not counted as slow.
	SlowAfter time.Duration

	// Excuse reports whether a slow call was not the dependency's fault; the call then
	// does not count as slow. It receives the call's duration and is not called for
	// probes. Defaults to no excuse.
	Excuse func(took time.Duration) bool

	// SlowMinimumCalls is the number of calls in the window below which SlowRatio does
	// not apply. Defaults to the greater of MinimumCalls and 2/SlowRatio, so that a
	// single slow call never opens the breaker, or to WindowCalls if that is less.
	SlowMinimumCalls int

	// MinimumSlow is the number of slow calls in the window below which SlowRatio does
	// not apply. It keeps one outlier among few calls from opening the breaker: with a
	// SlowRatio of 0.01, a single slow call reaches the ratio of up to 100 calls. Zero:
	// one slow call suffices.
	MinimumSlow int

	// Window is the time over which the ratios count calls, to a precision of a tenth.
	// Where a tenth holds over 1000 calls and SlowAfter is zero, up to fifteen successes
	// may count in the tenth before. Defaults to 10 s; at least 10 ns.
	Window time.Duration

	// WindowCalls makes the ratios count the last WindowCalls calls instead of a time,
	// for dependencies that are called rarely. A whole window is then WindowCalls calls
	// since the breaker closed. At most 1,000,000, at 4 bytes each. Zero: the window is a
	// time.
	WindowCalls int

	// OpenFor is how long the breaker refuses calls before it lets a probe through.
	// Defaults to 1 s; the greatest Duration means until Reset.
	OpenFor time.Duration

	// Growth multiplies the open period each time the breaker opens again before it has
	// been closed for a whole window. At least 1, the default.
	Growth float64

	// MaxOpenFor bounds the open period as it grows. Defaults to a minute, or to OpenFor
	// if that is more.
	MaxOpenFor time.Duration

	// Probes is how many calls are let through while half-open. The breaker closes when
	// this many have succeeded. It opens again at the first that fails or, where
	// SlowRatio is set, is slow. Probes may be lost: if they have not ended by the time
	// the newest has taken as long as the breaker was open, the same number of further
	// probes is let through, and the result of each probe still counts. Defaults to 1.
	Probes int

	// ProbesApart keeps ordinary calls from being probes: once the breaker has opened,
	// Begin refuses until it closes, and only BeginProbe starts a probe.
	ProbesApart bool

	// Classify tells Do what the error of a call means; it is also called with nil.
	// Defaults to [Classify].
	Classify func(error) Outcome

	// OnChange is called at every change of state, in order, one call at a time. It must
	// return quickly, and State is the only method of the breaker that it may call.
	OnChange func(Change)

	// Clock returns the time and must never go back. Defaults to time.Now.
	Clock func() time.Time

	// CoarseClock takes the place of Clock: it is cheaper to read. Nil: none.
	CoarseClock *CoarseClock
}

const maxWindowCalls = 1_000_000

// setDefaults sets the default of every field that is zero.
func (o *Options) setDefaults() {
	if o.ConsecutiveFailures == 0 && o.SlowRatio == 0 {
		o.FailureRatio = cmp.Or(o.FailureRatio, 0.5)
	}
	most := math.MaxInt32
	if o.WindowCalls > 0 {
		most = o.WindowCalls
	}
	o.MinimumCalls = cmp.Or(o.MinimumCalls, min(20, most))
	if o.SlowRatio > 0 {
		twoSlow := int(min(math.Ceil(2/o.SlowRatio), math.MaxInt32))
		o.SlowMinimumCalls = cmp.Or(o.SlowMinimumCalls, min(max(o.MinimumCalls, twoSlow), most))
	}
	o.Window = cmp.Or(o.Window, 10*time.Second)
	o.OpenFor = cmp.Or(o.OpenFor, time.Second)
	o.Growth = cmp.Or(o.Growth, 1)
	o.MaxOpenFor = cmp.Or(o.MaxOpenFor, max(o.OpenFor, time.Minute))
	o.Probes = cmp.Or(o.Probes, 1)
	if o.Classify == nil {
		o.Classify = Classify
	}
}

// check returns every error in options whose defaults are set.
func (o *Options) check() error {
	return errors.Join(
		o.checkNumbers(),
		o.checkWindowCalls(),
		checkRatio("FailureRatio", o.FailureRatio),
		checkRatio("SlowRatio", o.SlowRatio),
		check.Unless(o.SlowAfter >= 0, "breaker: SlowAfter: is %v, which is below 0", o.SlowAfter),
		check.Unless(o.SlowRatio == 0 || o.SlowAfter != 0, "breaker: SlowAfter: is %v, and SlowRatio needs it above 0", o.SlowAfter),
		check.Unless(o.Window >= parts, "breaker: Window: is %v; use at least %v", o.Window, time.Duration(parts)),
		check.Unless(o.Growth >= 1 && o.Growth < math.Inf(1), "breaker: Growth: is %v; use a number of at least 1", o.Growth),
		check.Unless(o.OpenFor > 0, "breaker: OpenFor: is %v; use a time above 0", o.OpenFor),
		check.Unless(o.CoarseClock == nil || o.Clock == nil, "breaker: CoarseClock: is set beside Clock; use one of them"),
		check.Unless(o.CoarseClock == nil || o.CoarseClock.made(), "breaker: CoarseClock: is a zero value; make it with NewCoarseClock"),
		check.Unless(o.MaxOpenFor >= o.OpenFor, "breaker: MaxOpenFor: %v is less than OpenFor, %v", o.MaxOpenFor, o.OpenFor),
	)
}

func (o *Options) checkNumbers() error {
	var errs []error
	for _, n := range []struct {
		name  string
		value int
	}{
		{"ConsecutiveFailures", o.ConsecutiveFailures}, {"MinimumCalls", o.MinimumCalls},
		{"SlowMinimumCalls", o.SlowMinimumCalls}, {"MinimumSlow", o.MinimumSlow}, {"Probes", o.Probes},
	} {
		errs = append(errs, check.Unless(n.value >= 0, "breaker: %s: is %d, which is below 0", n.name, n.value))
	}
	return errors.Join(errs...)
}

func (o *Options) checkWindowCalls() error {
	n := o.WindowCalls
	return errors.Join(
		check.Unless(n >= 0 && n <= maxWindowCalls, "breaker: WindowCalls: is %d; use 1 to %d, or 0 for a time", n, maxWindowCalls),
		check.Unless(n <= 0 || o.MinimumCalls <= n, "breaker: MinimumCalls: is %d, which WindowCalls, %d, never holds", o.MinimumCalls, n),
		check.Unless(n <= 0 || o.SlowMinimumCalls <= n, "breaker: SlowMinimumCalls: is %d, which WindowCalls, %d, never holds", o.SlowMinimumCalls, n),
		check.Unless(n <= 0 || o.MinimumSlow <= n, "breaker: MinimumSlow: is %d, which WindowCalls, %d, never holds", o.MinimumSlow, n),
	)
}

func checkRatio(name string, r float64) error {
	return check.Unless(r >= 0 && r <= 1, "breaker: %s: is %v; use a share above 0, at most 1", name, r)
}
