package breaker

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Options says when a [Breaker] opens, for how long, and how it closes again.
// The zero value opens when half of at least 20 calls in 10 s failed, for 1 s,
// and lets one probe through.
type Options struct {
	// ConsecutiveFailures opens the breaker after so many failures with no
	// success between them, in whatever time. Zero: never.
	ConsecutiveFailures int

	// FailureRatio opens the breaker when a call fails and at least this
	// share of the calls in the window failed, from above 0 to 1. Zero:
	// never, but 0.5 where neither of the other two is set.
	FailureRatio float64

	// MinimumCalls is how many calls the window must hold for FailureRatio
	// to be judged. Defaults to 20, or to WindowCalls if that is less.
	MinimumCalls int

	// SlowRatio opens the breaker when a call was slow and at least this
	// share of the calls in the window were, from above 0 to 1: 0.01 opens
	// it when the 99th percentile is over SlowAfter. It is judged once the
	// breaker has been closed for a whole window, so that neither the first
	// connections nor a short burst open it. Zero: never.
	SlowRatio float64

	// SlowAfter is how long a call takes at least that is slow, whether it
	// failed or not. Needed with SlowRatio; without it slow calls are counted
	// and open nothing. Zero: no call is slow.
	//
	// Once a tenth of the Window (or WindowCalls) has seen a thousand calls,
	// each is taken to begin when the last one ended, or up to a thousandth of
	// SlowAfter before, which spares a look at the clock. A call that may be
	// slow by this is not counted as slow, and all are timed exactly for the
	// next Window; so what a dependency that turns slow escapes with is the
	// calls then in flight.
	SlowAfter time.Duration

	// Excuse says of a slow call, and how long it took, that this was not the
	// callee's doing: it then counts as one that was not slow. It is not
	// asked about probes. Defaults to no call.
	Excuse func(took time.Duration) bool

	// SlowMinimumCalls is how many calls the window must hold for SlowRatio
	// to be judged. Defaults to MinimumCalls or 2/SlowRatio, whichever is
	// more, so that no single slow call opens the breaker, or to WindowCalls
	// if that is less.
	SlowMinimumCalls int

	// Window is the time that the ratios look back, to a tenth of it. Where
	// a tenth holds over a thousand calls and none can be slow, up to fifteen
	// successes may count as of the tenth before. Defaults to 10 s; at least
	// 10 ns.
	Window time.Duration

	// WindowCalls lets the ratios look back on so many calls, however long
	// ago, in place of a time: for who calls rarely. A whole window is then
	// as many calls since the breaker closed. At most a million, of four
	// bytes each. Zero: the window is a time.
	WindowCalls int

	// OpenFor is how long the breaker refuses calls before it lets a probe
	// through. Defaults to 1 s; the longest time there is means until Reset.
	OpenFor time.Duration

	// Growth is what that time is multiplied by whenever the breaker opens
	// again before it has been closed for a whole window. At least 1, which
	// is the default.
	Growth float64

	// MaxOpenFor is what that time grows to at most. Defaults to a minute, or
	// to OpenFor if that is more.
	MaxOpenFor time.Duration

	// Probes is how many calls are let through half-open. When as many have
	// succeeded the breaker closes; the first that fails, or is slow where
	// SlowRatio is set, opens it again. Those that have not ended when the
	// newest has taken as long as the breaker was open may be lost: as many
	// others are then let through beside them, and however each ends counts.
	// Defaults to 1.
	Probes int

	// ProbesApart keeps ordinary calls from being probes: half-open, Begin
	// refuses, and only BeginProbe lets through.
	ProbesApart bool

	// Classify says what the error of a call means, nil included, for Do.
	// Defaults to [Classify].
	Classify func(error) Outcome

	// OnChange is told of every change of state, in order, one at a time. It
	// must be quick, and of the breaker's methods it may call only State.
	OnChange func(Change)

	// Clock returns the time that has passed since any fixed moment. It never
	// runs back. Defaults to the monotonic clock.
	Clock func() time.Duration
}

const (
	defaultRatio      = 0.5
	defaultMinimum    = 20
	defaultWindow     = 10 * time.Second
	defaultOpenFor    = time.Second
	defaultMaxOpenFor = time.Minute
	maxWindowCalls    = 1_000_000
)

// setDefaults fills in what was left zero.
func (o *Options) setDefaults() {
	if o.ConsecutiveFailures == 0 && o.SlowRatio == 0 {
		orDefault(&o.FailureRatio, defaultRatio)
	}
	most := math.MaxInt32
	if o.WindowCalls > 0 {
		most = o.WindowCalls
	}
	orDefault(&o.MinimumCalls, min(defaultMinimum, most))
	if o.SlowRatio > 0 {
		twoSlow := int(min(math.Ceil(2/o.SlowRatio), math.MaxInt32))
		orDefault(&o.SlowMinimumCalls, min(max(o.MinimumCalls, twoSlow), most))
	}
	orDefault(&o.Window, defaultWindow)
	orDefault(&o.OpenFor, defaultOpenFor)
	orDefault(&o.Growth, 1)
	orDefault(&o.MaxOpenFor, max(o.OpenFor, defaultMaxOpenFor))
	orDefault(&o.Probes, 1)
	if o.Classify == nil {
		o.Classify = Classify
	}
}

func orDefault[T int | float64 | time.Duration](v *T, otherwise T) {
	if *v == 0 {
		*v = otherwise
	}
}

// check says everything that is wrong with complete options.
func (o *Options) check() error {
	return errors.Join(
		o.checkNumbers(),
		o.checkWindowCalls(),
		checkRatio("FailureRatio", o.FailureRatio),
		checkRatio("SlowRatio", o.SlowRatio),
		unless(o.SlowAfter >= 0, "SlowAfter: is %v, which is below 0", o.SlowAfter),
		unless(o.SlowRatio == 0 || o.SlowAfter != 0, "SlowAfter: is %v, and SlowRatio needs it above 0", o.SlowAfter),
		unless(o.Window >= parts, "Window: is %v; use at least %v", o.Window, time.Duration(parts)),
		unless(o.Growth >= 1 && o.Growth < math.Inf(1), "Growth: is %v; use a number of at least 1", o.Growth),
		unless(o.OpenFor > 0, "OpenFor: is %v; use a time above 0", o.OpenFor),
		unless(o.MaxOpenFor >= o.OpenFor, "MaxOpenFor: %v is less than OpenFor, %v", o.MaxOpenFor, o.OpenFor),
	)
}

func (o *Options) checkNumbers() error {
	var errs []error
	for _, n := range []struct {
		name  string
		value int
	}{
		{"ConsecutiveFailures", o.ConsecutiveFailures}, {"MinimumCalls", o.MinimumCalls},
		{"SlowMinimumCalls", o.SlowMinimumCalls}, {"Probes", o.Probes},
	} {
		errs = append(errs, unless(n.value >= 0, "%s: is %d, which is below 0", n.name, n.value))
	}
	return errors.Join(errs...)
}

func (o *Options) checkWindowCalls() error {
	n := o.WindowCalls
	return errors.Join(
		unless(n >= 0 && n <= maxWindowCalls, "WindowCalls: is %d; use 1 to %d, or 0 for a time", n, maxWindowCalls),
		unless(n <= 0 || o.MinimumCalls <= n, "MinimumCalls: is %d, which WindowCalls, %d, never holds", o.MinimumCalls, n),
		unless(n <= 0 || o.SlowMinimumCalls <= n, "SlowMinimumCalls: is %d, which WindowCalls, %d, never holds", o.SlowMinimumCalls, n),
	)
}

func checkRatio(name string, r float64) error {
	return unless(r >= 0 && r <= 1, "%s: is %v; use a share above 0, at most 1", name, r)
}

func unless(right bool, format string, args ...any) error {
	if right {
		return nil
	}
	return fmt.Errorf("breaker: "+format, args...)
}
