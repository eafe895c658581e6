package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// bar is a promised bound and the measured figure.
type bar struct {
	what         string
	bound, found float64
	least        bool // bound is a minimum, not a maximum
	unit         string
}

func (b bar) met() bool {
	if b.least {
		return b.found >= b.bound
	}
	return b.found <= b.bound
}

// limit returns the bound as text.
func (b bar) limit() string {
	if b.least {
		return fmt.Sprintf("at least %.4g", b.bound)
	}
	return fmt.Sprintf("at most %.4g", b.bound)
}

// bars holds the bars of the parts that ran.
type bars []bar

func (b *bars) judge(what string, found, most float64, unit string) {
	*b = append(*b, bar{what: what, bound: most, found: found, unit: unit})
}

// judgeLeast adds a bar whose bound is a minimum.
func (b *bars) judgeLeast(what string, found, least float64, unit string) {
	*b = append(*b, bar{what: what, bound: least, found: found, least: true, unit: unit})
}

// judgeSpeed adds the bars of a race in memory, by the ordinary clock and by the
// processor's counter.
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

// judgeFilling adds the bars of holding many keys.
func (b *bars) judgeFilling(f filling) {
	b.judge("fill: memory", f.BytesPerKey, 48, "bytes a key")
	b.judge("fill: memory at its peak", f.PeakPerKey, 64, "bytes a key")
	b.judge("fill: p99.99 of a call", microseconds(f.P9999), 100, "µs")
	b.judge("fill: slowest call", microseconds(f.Slowest), 5000, "µs")
	b.judge("fill: a full collection", microseconds(f.FullGC), 10_000, "µs")
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// print prints each bar, met or missed.
func (b *bars) print(out io.Writer) {
	if len(*b) == 0 {
		return
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "\nbar\tmeasured\tpromised\t\t\n")
	for _, one := range *b {
		result := "met"
		if !one.met() {
			result = "MISSED"
		}
		fmt.Fprintf(table, "%s\t%.4g\t%s\t%s\t%s\n", one.what, one.found, one.limit(), one.unit, result)
	}
	table.Flush()
}
