package adaptive

import (
	"errors"
	"math"
)

// Gradient compares the latency now with a baseline, the latency of a server
// that is not overloaded: while they are alike the limit grows by a small
// queue, and as latency rises the limit falls in proportion. It needs no
// number for what is slow. The zero value can be used.
//
// The idea is that of TCP Vegas (Brakmo and Peterson, 1995), which takes the
// growth of the round trip for the length of the queue; in the form that
// Netflix gave it for servers in concurrency-limits, as Gradient2.
//
// The baseline is the mean latency of windows in which less than half of the
// limit was in use. Windows under load do not teach it: a server that starts
// overloaded, or stays so for minutes, would make the overload its baseline.
// While the gate is full the baseline is measured instead, as Envoy's adaptive
// concurrency and TCP BBR do: at first, after every hundred full windows, and
// when the limit has fallen to a quarter. The limit is halved for some windows.
// If latency falls with it, calls were queueing, and it is halved again; if
// not, this latency is the baseline, and the limit returns to where the
// baseline allows it. In an overload that lasts this costs a few calls in a
// hundred.
//
// Dropped calls lower the limit too, by a tenth of their share, but for
// Smoothing: latency alone does not show a server that refuses quickly. Their own
// latency counts for nothing: what is served after refusals that came at once
// would look slow.
type Gradient struct {
	// Tolerance is how much higher than its baseline latency may be before
	// the limit falls: 1.5 is half as much again. At least 1. Defaults to
	// 1.5.
	Tolerance float64

	// Queue is how many calls more than now may wait: what the limit grows by
	// while all is well, but for Smoothing. Above 0. Defaults to the square root of
	// the limit, at least 4.
	Queue float64

	// Smoothing is the weight of a new limit against the one before, above 0
	// to 1. Defaults to 0.2.
	Smoothing float64

	// Windows is over how many windows the baseline is an average. At least
	// 1. Defaults to 600, a minute if windows are 100 ms.
	Windows float64

	baseline float64
	seen     float64 // windows that the baseline was learned from, up to Windows
	full     int     // windows in which the gate was full, since the last probe
	highest  float64 // limit since the last probe
	probe    probe
}

const (
	fullWindows = 100  // in which the gate is full, from one probe to the next
	probeCost   = 20   // or as many for each window that the last probe took, if that is more
	fallen      = 0.25 // the share of the highest limit at which the baseline is doubted
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

// law is the gradient: the limit after a window without a probe.
func (g *Gradient) law(o *Gradient, limit float64, w Window) float64 {
	dropped, light := w.dropped(), 2*w.InFlight < int(limit)
	latency := max(1, float64(w.Latency))
	answered := w.Dropped < w.Calls
	if light && answered {
		g.learn(latency, o.Windows)
	}
	gradient, queue := 1.0, o.Queue*(1-dropped)
	if answered && g.baseline > 0 {
		gradient = min(1, max(0.5, o.Tolerance*g.baseline/latency))
	}
	if light { // what nobody comes near tells nothing
		gradient, queue = 1, 0
	}
	gradient = min(gradient, 1-dropped/10)
	return limit*(1-o.Smoothing) + (limit*gradient+queue)*o.Smoothing
}

// due reports whether the baseline must be measured now. A gate that is not
// full sheds nothing, and a probe of it could.
func (g *Gradient) due(limit float64, w Window) bool {
	g.highest = max(g.highest, limit)
	if w.InFlight < int(limit) || w.Dropped == w.Calls {
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
	orDefault(&o.Tolerance, 1.5)
	orDefault(&o.Queue, max(4, math.Sqrt(limit)))
	orDefault(&o.Smoothing, 0.2)
	orDefault(&o.Windows, 600)
	return o
}

func (g *Gradient) check() error {
	o := g.setDefaults(1)
	return errors.Join(
		unless(o.Tolerance >= 1, "Gradient: Tolerance: is %v; use at least 1", o.Tolerance),
		unless(o.Queue > 0, "Gradient: Queue: is %v; use a number above 0", o.Queue),
		unless(o.Smoothing > 0 && o.Smoothing <= 1, "Gradient: Smoothing: is %v; use a number above 0, up to 1", o.Smoothing),
		unless(o.Windows >= 1, "Gradient: Windows: is %v; use at least 1", o.Windows),
	)
}

// learn adds a latency to the baseline: at first it is the mean of all. When
// load has gone, it comes down at once by a twentieth a window.
func (g *Gradient) learn(latency, windows float64) {
	g.seen = min(g.seen+1, windows)
	g.baseline += (latency - g.baseline) / g.seen
	if g.baseline > 2*latency {
		g.baseline *= 0.95
	}
}
