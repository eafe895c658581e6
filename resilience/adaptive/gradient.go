package adaptive

import (
	"cmp"
	"errors"
	"math"

	"github.com/stintdev/stint/resilience/internal/check"
)

// Gradient compares the current latency with a baseline, the latency of the server when
// it is not overloaded. While the two are alike, the limit grows by a small queue. When
// latency rises above the baseline, the limit falls in proportion. It needs no configured
// latency. The zero value can be used.
//
// The idea is that of TCP Vegas (Brakmo and Peterson, 1995), which estimates the length
// of a queue from the growth of the round-trip time, in the form of Gradient2 of
// Netflix's concurrency-limits.
//
// The baseline is the mean latency of windows in which less than half of the limit was in
// use. Windows under load are not part of it: otherwise a server that starts overloaded,
// or stays so for minutes, would make the overload its baseline.
//
// While the gate is full, a probe measures the baseline instead, as in Envoy's adaptive
// concurrency and TCP BBR. A probe runs at first, after every hundred full windows, and
// when the limit has fallen to a quarter. It halves the limit for some windows. If
// latency falls with the limit, calls were queueing and the probe halves it again. If
// not, this latency is the baseline, and the limit returns to the value that the baseline
// allows. In a lasting overload, probes cost a few calls in a hundred.
//
// Failed calls also lower the limit, by a tenth of their share before Smoothing, because
// latency does not show a server that refuses quickly. The latency of failed calls is
// not measured: next to quick refusals, other calls would look slow.
type Gradient struct {
	// Tolerance is the ratio of latency to baseline above which the limit falls: 1.5
	// allows half as much again. At least 1. Defaults to 1.5.
	Tolerance float64

	// Queue is how many more calls may wait: the limit grows by Queue, before Smoothing,
	// while latency is near the baseline. Above 0. Defaults to the square root of the
	// limit, at least 4.
	Queue float64

	// Smoothing is the weight of a new limit against the one before, above 0
	// to 1. Defaults to 0.2.
	Smoothing float64

	// Windows is the number of windows that the baseline averages. At least 1. Defaults
	// to 600, a minute if windows are 100 ms.
	Windows float64

	baseline float64
	seen     float64 // windows that the baseline was learned from, up to Windows
	full     int     // windows in which the gate was full, since the last probe
	highest  float64 // limit since the last probe
	probe    probe
}

const (
	fullWindows = 100  // least number of full windows between two probes
	probeCost   = 20   // a probe of n windows is followed by at least n times as many full windows
	fallen      = 0.25 // share of the highest limit since the last probe at which a new probe starts
)

// Next returns the limit after a window.
func (g *Gradient) Next(limit float64, w Window) float64 {
	o := g.setDefaults(limit)
	if g.probe.running {
		return g.proceed(limit, w, o.Tolerance)
	}
	if next := g.law(&o, limit, w); !g.due(limit, w) {
		return next
	}
	g.probe = startProbe(limit, w)
	return limit
}

// law returns the limit after a window without a probe.
func (g *Gradient) law(o *Gradient, limit float64, w Window) float64 {
	failed, light := w.failed(), 2*w.InFlight < int(limit)
	latency := max(1, float64(w.Latency))
	answered := w.Failures < w.Calls
	if light && answered {
		g.learn(latency, o.Windows)
	}
	gradient, queue := 1.0, o.Queue*(1-failed)
	if answered && g.baseline > 0 {
		gradient = min(1, max(0.5, o.Tolerance*g.baseline/latency))
	}
	if light { // a limit that is not in use tells nothing
		gradient, queue = 1, 0
	}
	gradient = min(gradient, 1-failed/10)
	return limit*(1-o.Smoothing) + (limit*gradient+queue)*o.Smoothing
}

// due reports whether a probe must start now. A gate that is not full sheds nothing, and
// a probe could make it shed.
func (g *Gradient) due(limit float64, w Window) bool {
	g.highest = max(g.highest, limit)
	if w.InFlight < int(limit) || w.Failures == w.Calls {
		return false
	}
	g.full++
	return g.baseline == 0 || g.full >= max(fullWindows, probeCost*g.probe.took) || limit <= g.highest*fallen
}

// proceed is Next while a probe runs.
func (g *Gradient) proceed(limit float64, w Window, tolerance float64) float64 {
	p := &g.probe
	next := p.next(limit, w)
	if p.running {
		return next
	}
	if p.baseline > 0 {
		g.baseline = p.baseline
		next = p.limit * min(1, tolerance*p.baseline/p.latency)
		next = max(next, p.lowest)
	}
	g.full, g.highest = 0, next
	return next
}

// setDefaults returns the gradient with the defaults for a limit.
func (g *Gradient) setDefaults(limit float64) Gradient {
	o := *g
	o.Tolerance = cmp.Or(o.Tolerance, 1.5)
	o.Queue = cmp.Or(o.Queue, max(4, math.Sqrt(limit)))
	o.Smoothing = cmp.Or(o.Smoothing, 0.2)
	o.Windows = cmp.Or(o.Windows, 600)
	return o
}

func (g *Gradient) check() error {
	o := g.setDefaults(1)
	return errors.Join(
		check.Unless(o.Tolerance >= 1, "adaptive: Gradient: Tolerance: is %v; use at least 1", o.Tolerance),
		check.Unless(o.Queue > 0, "adaptive: Gradient: Queue: is %v; use a number above 0", o.Queue),
		check.Unless(o.Smoothing > 0 && o.Smoothing <= 1, "adaptive: Gradient: Smoothing: is %v; use a number above 0, up to 1", o.Smoothing),
		check.Unless(o.Windows >= 1, "adaptive: Gradient: Windows: is %v; use at least 1", o.Windows),
	)
}

// learn adds a latency to the baseline. At first the baseline is the mean of all
// latencies. When the load has gone, it falls by a twentieth per window.
func (g *Gradient) learn(latency, windows float64) {
	g.seen = min(g.seen+1, windows)
	g.baseline += (latency - g.baseline) / g.seen
	if g.baseline > 2*latency {
		g.baseline *= 0.95
	}
}
