package main

import (
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// runner is one contestant of a race.
type runner struct {
	name string
	// block makes some calls on behalf of one caller and returns their number. Blocks of
	// one runner run concurrently, one for each caller.
	block func(caller int) (calls int)
	// callers, unless 0, replaces the number of callers of the race.
	callers int
	// clock, unless nil, replaces the clock of the race.
	clock clock
	// after, unless nil, is called after each slice; counts is false for the first round.
	after func(counts bool)
}

// timings holds the cost of a call in each round, in nanoseconds, by the name of the
// runner.
type timings map[string][]float64

// race says how long the runners race, and on what.
type race struct {
	rounds  int           // number of rounds that count; one more runs first
	slice   time.Duration // time of one runner in one round
	cpus    int
	callers int // goroutines that run blocks at once
	clock   clock
}

// interleave runs a slice of every runner in each round, and a first round that does not
// count. It shuffles the runners in every round, so that a runner does not always follow
// the same one.
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

// asked returns the race with the settings of a runner.
func (c race) asked(r runner) race {
	if r.callers > 0 {
		c.callers = r.callers
	}
	if r.clock != nil {
		c.clock = r.clock
	}
	return c
}

// timeSlice runs blocks of every caller for about one slice, and returns the elapsed time
// divided by the number of calls.
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

// ns returns the median cost of a call.
func (t timings) ns(name string) float64 { return median(t[name]) }

// ratio returns the median over rounds of the cost of name divided by the cost of other
// in the same round.
func (t timings) ratio(name, other string) float64 {
	ratios := make([]float64, len(t[name]))
	for i := range ratios {
		ratios[i] = t[name][i] / t[other][i]
	}
	return median(ratios)
}

// median returns the middle value, or the mean of the two in the middle, or 0 without
// values.
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
