package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// bar is something that was promised, and what was measured.
type bar struct {
	what         string
	bound, found float64
	least        bool // whether bound is the least that was promised, not the most
	unit         string
}

func (b bar) met() bool {
	if b.least {
		return b.found >= b.bound
	}
	return b.found <= b.bound
}

// limit is the bound as it is read.
func (b bar) limit() string {
	if b.least {
		return fmt.Sprintf("at least %.4g", b.bound)
	}
	return fmt.Sprintf("at most %.4g", b.bound)
}

// bars is every promise that the parts that ran have judged.
type bars []bar

func (b *bars) judge(what string, found, most float64, unit string) {
	*b = append(*b, bar{what: what, bound: most, found: found, unit: unit})
}

// judgeLeast is judge where more is better.
func (b *bars) judgeLeast(what string, found, least float64, unit string) {
	*b = append(*b, bar{what: what, bound: least, found: found, least: true, unit: unit})
}

// judgeSpeed compares a race with what was promised of it, by the ordinary
// clock and by the processor's counter.
func (b *bars) judgeSpeed(workload string, cpus int, t timings) {
	title := fmt.Sprintf("%s, %d CPU", workload, cpus)
	counter := title + ", processor clock"
	if workload == "hot" && cpus == 2 {
		b.judge(title, t.ns(stintName), 65, "ns a call")
		b.judge(counter, t.ns(counterName), 45, "ns a call")
		return
	}
	promised := map[string][2]float64{"hot": {0.85, 0.60}, "uniform": {0.65, 0.55}, "zipf": {0.72, 0.65}}[workload]
	b.judge(title, t.ratio(stintName, referenceName), promised[0], "of "+referenceName)
	b.judge(counter, t.ratio(counterName, referenceName), promised[1], "of "+referenceName)
}

// judgeFilling compares what it took Stint to hold many keys with what was
// promised.
func (b *bars) judgeFilling(f filling) {
	b.judge("fill: memory", f.BytesPerKey, 48, "bytes a key")
	b.judge("fill: memory at its peak", f.PeakPerKey, 64, "bytes a key")
	b.judge("fill: p99.99 of a call", microseconds(f.P9999), 100, "µs")
	b.judge("fill: slowest call", microseconds(f.Slowest), 5000, "µs")
	b.judge("fill: a full collection", microseconds(f.FullGC), 10_000, "µs")
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// print shows each bar, met or missed.
func (b *bars) print(out io.Writer) {
	if len(*b) == 0 {
		return
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "\nbar\tmeasured\tpromised\t\t\n")
	for _, one := range *b {
		verdict := "met"
		if !one.met() {
			verdict = "MISSED"
		}
		fmt.Fprintf(table, "%s\t%.4g\t%s\t%s\t%s\n", one.what, one.found, one.limit(), one.unit, verdict)
	}
	table.Flush()
}
