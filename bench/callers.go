package main

import (
	"slices"
	"time"
)

// calling is a workload over the network: a number of callers, each of which waits for an
// answer before it asks again.
type calling struct {
	callers int
	hot     bool // all callers use one key; false: each caller has separate keys
}

// mostCallers is the greatest number of concurrent callers.
const mostCallers = 256

// parts returns into how many parts a slice is cut. One caller uses little of the
// machine, so other load affects it most. With short parts that alternate, a disturbance
// that lasts longer than one part affects all contestants alike.
func (c calling) parts() int {
	if c.callers == 1 {
		return 10
	}
	return 1
}

// callings returns every workload, the one with the fewest callers first.
func callings() []calling {
	return []calling{{1, false}, {16, false}, {64, false}, {mostCallers, false}, {mostCallers, true}}
}

// race returns a race that takes equally long for every workload, because a round of it
// is one part of a slice. Two processes and the network between them are less steady than
// one process, so there are twice as many slices as in memory.
func (c calling) race(o options) race {
	parts := c.parts()
	return race{
		rounds: 2 * o.rounds * parts, slice: o.slice / time.Duration(parts),
		cpus: 1, callers: c.callers, clock: wallClock,
	}
}

// answers records the calls to one contestant. The exported figures have one value for
// each slice. Each caller writes to its own index.
type answers struct {
	base           time.Time
	parts, part    int             // parts of a slice; how many of them have ended
	at             []time.Duration // when each caller's last call ended, from base; 0 before its first
	seen           [][]uint32      // nanoseconds a call, for each caller
	refused        []int           // calls that were not admitted, or failed
	P50, P99, P999 []float64       // nanoseconds
	Calls, Refused int             // counted in the rounds that count
}

func newAnswers(callers, parts int) *answers {
	return &answers{
		base: time.Now(), parts: parts, at: make([]time.Duration, callers),
		seen: make([][]uint32, callers), refused: make([]int, callers),
	}
}

// ask makes one call. It begins where the caller's last call ended, so that one read of
// the clock per call is enough. That matters where a call takes a microsecond.
func (a *answers) ask(caller int, t take, key string) {
	at := a.last(caller)
	if !t(key) {
		a.refused[caller]++
	}
	now := time.Since(a.base)
	a.seen[caller] = append(a.seen[caller], uint32(min(now-at, 1<<32-1)))
	a.at[caller] = now
}

// last returns when a caller's last call ended, since base.
func (a *answers) last(caller int) time.Duration {
	if a.at[caller] == 0 {
		a.at[caller] = time.Since(a.base)
	}
	return a.at[caller]
}

// calls returns how many calls have ended in this slice.
func (a *answers) calls() (n int) {
	for _, seen := range a.seen {
		n += len(seen)
	}
	return n
}

// close ends a slice, or a part of one. It keeps the figures if counts is true.
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

// quantile returns the value that of1000 of 1000 sorted values do not exceed.
func quantile(sorted []uint32, of1000 int) float64 {
	at := (len(sorted)*of1000+999)/1000 - 1
	return float64(sorted[max(at, 0)])
}

// runner returns a runner of this workload for one contestant.
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

// stretch is how long a caller makes calls before it checks whether its slice is over.
const stretch = time.Millisecond
