package main

import (
	"slices"
	"time"
)

// calling is a workload over the network: so many callers, each of whom waits
// for an answer before it asks again.
type calling struct {
	callers int
	hot     bool // all ask for one key; else each walks through keys of its own
}

// mostCallers is as many as ever call at once.
const mostCallers = 256

// parts is into how many a slice is cut. One caller uses little of the machine,
// and feels all that others do on it: what lasts longer than a contestant's part
// falls on everyone alike.
func (c calling) parts() int {
	if c.callers == 1 {
		return 10
	}
	return 1
}

// callings is every workload, the loneliest first.
func callings() []calling {
	return []calling{{1, false}, {16, false}, {64, false}, {mostCallers, false}, {mostCallers, true}}
}

// race is as long for every workload: a round of it is a part of a slice. Two
// processes and the system between them are less steady than one, so there are
// twice as many slices as elsewhere.
func (c calling) race(o options) race {
	parts := c.parts()
	return race{
		rounds: 2 * o.rounds * parts, slice: o.slice / time.Duration(parts),
		cpus: 1, callers: c.callers, clock: wallClock,
	}
}

// answers is what the callers of one contestant saw in a slice, and, a figure
// a slice, what came of it. Each caller writes to its own.
type answers struct {
	base           time.Time
	parts, part    int             // that make up a slice; how many of them are over
	at             []time.Duration // when each caller's last call ended, from base; 0 before its first
	seen           [][]uint32      // nanoseconds a call, for each caller
	refused        []int           // calls that were not admitted, or failed
	P50, P99, P999 []float64       // nanoseconds
	Calls, Refused int             // in the rounds that count
}

func newAnswers(callers, parts int) *answers {
	return &answers{
		base: time.Now(), parts: parts, at: make([]time.Duration, callers),
		seen: make([][]uint32, callers), refused: make([]int, callers),
	}
}

// ask is one call. It begins where the caller's last one ended: one look at
// the clock a call is enough, which counts where a call takes a microsecond.
func (a *answers) ask(caller int, t take, key string) {
	at := a.last(caller)
	if !t(key) {
		a.refused[caller]++
	}
	now := time.Since(a.base)
	a.seen[caller] = append(a.seen[caller], uint32(min(now-at, 1<<32-1)))
	a.at[caller] = now
}

// last is when a caller's last call ended, from base.
func (a *answers) last(caller int) time.Duration {
	if a.at[caller] == 0 {
		a.at[caller] = time.Since(a.base)
	}
	return a.at[caller]
}

// calls is how many have ended in this slice.
func (a *answers) calls() (n int) {
	for _, seen := range a.seen {
		n += len(seen)
	}
	return n
}

// close ends a slice, or a part of one, and keeps its figures if its round
// counts.
func (a *answers) close(counts bool) {
	clear(a.at)
	if a.part++; counts && a.part%a.parts != 0 {
		return
	}
	a.part = 0
	all := slices.Concat(a.seen...)
	for i := range a.seen {
		if counts {
			a.Refused += a.refused[i]
		}
		a.seen[i], a.refused[i] = a.seen[i][:0], 0
	}
	if !counts || len(all) == 0 {
		return
	}
	slices.Sort(all)
	a.Calls += len(all)
	a.P50 = append(a.P50, quantile(all, 500))
	a.P99 = append(a.P99, quantile(all, 990))
	a.P999 = append(a.P999, quantile(all, 999))
}

// quantile is the value that so many of 1000 sorted ones do not exceed.
func quantile(sorted []uint32, of1000 int) float64 {
	at := (len(sorted)*of1000+999)/1000 - 1
	return float64(sorted[max(at, 0)])
}

// runner walks through this workload with one contestant.
func (c calling) runner(name string, t take, keys []string, seen *answers) runner {
	if c.hot {
		keys = keys[:1]
	}
	share := max(len(keys)/c.callers, 1)
	next := make([]int, c.callers)
	return runner{name: name, after: seen.close, block: func(caller int) (calls int) {
		for start := seen.last(caller); seen.last(caller)-start < stretch; calls++ {
			at := &next[caller]
			seen.ask(caller, t, keys[(caller*share+*at)%len(keys)])
			if *at++; *at == share {
				*at = 0
			}
		}
		return calls
	}}
}

// stretch is how long a caller goes on before it looks whether its slice is
// over.
const stretch = time.Millisecond
