package adapt

import "math"

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
// What has been slow for minutes becomes the baseline: give Max a number that
// the server survives.
type Gradient struct {
	// Tolerance is how much higher than its baseline latency may be before
	// the limit falls: 1.5 is half as much again. At least 1. Defaults to
	// 1.5.
	Tolerance float64

	// Queue is how many calls more than now may wait: what the limit grows by
	// while all is well, but for Smoothing. Defaults to the square root of
	// the limit, at least 4.
	Queue float64

	// Smoothing is the weight of a new limit against the one before, above 0
	// to 1. Defaults to 0.2.
	Smoothing float64

	// Windows is over how many windows the baseline is an average. Defaults
	// to 600, a minute if windows are 100 ms.
	Windows float64

	baseline float64
	seen     float64 // windows so far, up to Windows
}

// Next returns the limit after a window.
func (g *Gradient) Next(limit float64, w Window) float64 {
	o := *g
	orDefault(&o.Tolerance, 1.5)
	orDefault(&o.Queue, max(4, math.Sqrt(limit)))
	orDefault(&o.Smoothing, 0.2)
	orDefault(&o.Windows, 600)
	latency := max(1, float64(w.Latency))
	g.learn(latency, o.Windows)
	if w.Dropped == 0 && 2*w.InFlight < int(limit) {
		return limit
	}
	gradient := min(1, max(0.5, o.Tolerance*g.baseline/latency))
	if w.Dropped > 0 {
		gradient = min(gradient, 0.9)
	}
	return limit*(1-o.Smoothing) + (limit*gradient+o.queue(w))*o.Smoothing
}

// queue is by how much the limit may grow; where calls are dropped, not at all.
func (g *Gradient) queue(w Window) float64 {
	if w.Dropped > 0 {
		return 0
	}
	return g.Queue
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
