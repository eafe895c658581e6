package adaptive

import (
	"cmp"
	"errors"
	"time"

	"github.com/stintdev/stint/resilience/internal/check"
)

// AIMD raises the limit by a step while calls are quick, and multiplies it by a factor
// below 1 when they take too long: additive increase, multiplicative decrease, as in TCP
// congestion control (Van Jacobson, "Congestion Avoidance and Control", 1988). It needs a
// configured latency; [Gradient] does not. The zero value can be used.
//
// Where calls fail, it cuts in proportion to their share, as Data Center TCP does
// (RFC 8257, section 3.3), and grows by the share of the others. One path that is always
// refused must not hold back the others.
type AIMD struct {
	// Timeout is the mean latency above which the limit is cut. Above 0.
	// Defaults to 1 s.
	Timeout time.Duration

	// Backoff multiplies the limit when calls take too long or all fail. Above 0,
	// below 1. Defaults to 0.9.
	Backoff float64

	// Step is how much the limit grows in a window in which at least half of it was in
	// use. A limit that is not in use must not keep growing. Above 0. Defaults to 1.
	Step float64
}

// Next returns the limit that follows a window.
func (a *AIMD) Next(limit float64, w Window) float64 {
	o := a.setDefaults()
	if w.Latency > o.Timeout {
		return limit * o.Backoff
	}
	failed := w.failed()
	next := limit * (1 - (1-o.Backoff)*failed)
	if 2*w.InFlight >= int(limit) {
		next += o.Step * (1 - failed)
	}
	return next
}

func (a *AIMD) setDefaults() AIMD {
	o := *a
	o.Timeout = cmp.Or(o.Timeout, time.Second)
	o.Backoff = cmp.Or(o.Backoff, 0.9)
	o.Step = cmp.Or(o.Step, 1)
	return o
}

func (a *AIMD) check() error {
	o := a.setDefaults()
	return errors.Join(
		check.Unless(o.Timeout > 0, "adaptive: AIMD: Timeout: is %v; use a time above 0", o.Timeout),
		check.Unless(o.Backoff > 0 && o.Backoff < 1, "adaptive: AIMD: Backoff: is %v; use a number above 0, below 1", o.Backoff),
		check.Unless(o.Step > 0, "adaptive: AIMD: Step: is %v; use a number above 0", o.Step),
	)
}
