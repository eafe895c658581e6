package adapt

import (
	"errors"
	"math"
)

// Gradient compares the latency now with what it has been for long: while
// they are alike the limit grows by a small queue, and as latency rises the
// limit falls in proportion. It needs no number for what is slow. The zero
// value can be used.
//
// The idea is that of TCP Vegas (Brakmo and Peterson, 1995), which takes the
// growth of the round trip for the length of the queue; in the form that
// Netflix gave it for servers in concurrency-limits, as Gradient2, whose
// baseline is a long average instead of the least that was ever seen, because
// that may come from requests unlike those of now.
//
// Dropped calls lower the limit too, by a tenth of their share, but for
// Smoothing: latency alone does not show a server that refuses quickly. Their own
// latency counts for nothing: what is served after refusals that came at once
// would look slow.
//
// What has been slow for minutes becomes the baseline: give Max a number that
// the server survives.
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
	seen     float64 // windows so far, up to Windows
}

// Next returns the limit after a window.
func (g *Gradient) Next(limit float64, w Window) float64 {
	o := g.complete(limit)
	gradient := 1.0
	if latency := max(1, float64(w.Latency)); w.Dropped < w.Calls {
		g.learn(latency, o.Windows)
		gradient = min(1, max(0.5, o.Tolerance*g.baseline/latency))
	}
	dropped := w.dropped()
	queue := o.Queue * (1 - dropped)
	if 2*w.InFlight < int(limit) { // what nobody comes near tells nothing
		gradient, queue = 1, 0
	}
	gradient = min(gradient, 1-dropped/10)
	return limit*(1-o.Smoothing) + (limit*gradient+queue)*o.Smoothing
}

// complete returns the gradient with the defaults for a limit.
func (g *Gradient) complete(limit float64) Gradient {
	o := *g
	orDefault(&o.Tolerance, 1.5)
	orDefault(&o.Queue, max(4, math.Sqrt(limit)))
	orDefault(&o.Smoothing, 0.2)
	orDefault(&o.Windows, 600)
	return o
}

func (g *Gradient) check() error {
	o := g.complete(1)
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
