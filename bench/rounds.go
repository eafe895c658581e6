package main

import (
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// runner is one of those whose slices alternate.
type runner struct {
	name string
	// block does some work on behalf of one CPU and says how many calls it
	// was. Blocks of one runner run at once, one a caller, and each caller
	// has a number of its own.
	block func(caller int) (calls int)
	// callers, unless 0, is how many run at once, in place of the race's.
	callers int
	// clock, unless nil, is in place of the race's.
	clock clock
	// after, unless nil, is told that a slice is over, and whether its round
	// counts.
	after func(counts bool)
}

// timings is what a call cost each runner in each round, in nanoseconds.
type timings map[string][]float64

// race is how long the runners race, and on what.
type race struct {
	rounds  int           // that count; one more goes before them
	slice   time.Duration // of one runner in one round
	cpus    int
	callers int // goroutines that run blocks at once
	clock   clock
}

// interleave runs a slice of every runner in each round, and a first round
// that does not count. No two rounds have the same order of runners next to
// each other, so nobody always follows the same one.
func (c race) interleave(runners []runner) timings {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(c.cpus))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	t := timings{}
	order := slices.Clone(runners)
	r := randomSource()
	for round := range c.rounds + 1 {
		runtime.GC()
		r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, one := range order {
			ns := c.timeSlice(one)
			if round > 0 {
				t[one.name] = append(t[one.name], ns)
			}
			if one.after != nil {
				one.after(round > 0)
			}
		}
	}
	return t
}

// asked is the race as a runner wants it.
func (c race) asked(r runner) race {
	if r.callers > 0 {
		c.callers = r.callers
	}
	if r.clock != nil {
		c.clock = r.clock
	}
	return c
}

// timeSlice lets every caller run blocks for about slice, and returns the
// time that passed by the calls of all.
func (c race) timeSlice(r runner) float64 {
	c = c.asked(r)
	var wait sync.WaitGroup
	calls := make([]int, c.callers)
	start, stop := time.Now(), c.clock()
	for caller := range c.callers {
		wait.Go(func() {
			n := 0
			for time.Since(start) < c.slice {
				n += r.block(caller)
			}
			calls[caller] = n
		})
	}
	wait.Wait()
	elapsed := stop()
	total := 0
	for _, n := range calls {
		total += n
	}
	return float64(elapsed.Nanoseconds()) / float64(total)
}

// ns is the median cost of a call.
func (t timings) ns(name string) float64 { return median(t[name]) }

// ratio is the median over rounds of what name cost beside other in the same
// round.
func (t timings) ratio(name, other string) float64 {
	ratios := make([]float64, len(t[name]))
	for i := range ratios {
		ratios[i] = t[name][i] / t[other][i]
	}
	return median(ratios)
}

// median is the middle value, or the mean of the two in the middle; 0 of
// none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
