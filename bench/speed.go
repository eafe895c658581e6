package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// workload says which keys are accessed, in which order.
type workload struct {
	name  string
	keys  int
	allow allowance
	order func() []uint32
}

func workloads() []workload {
	const uniform, skewed = 100_000, 1_000_000
	return []workload{
		{"hot", 1, allowance{1_000_000_000, 34_560 * time.Microsecond}, hotOrder},
		{"uniform", uniform, ample(), func() []uint32 { return uniformOrder(uniform) }},
		{"zipf", skewed, ample(), func() []uint32 { return zipfOrder(skewed, 1.1) }},
	}
}

// blockCalls is the number of calls between two reads of the clock: few enough to end a slice in
// time, and enough that the cost of the reads is negligible.
const blockCalls = 1024

// run measures every contestant on a workload with a number of CPUs.
func (w workload) run(o options, cpus int) (timings, error) {
	keys, order := newKeyText(w.keys).list(), w.order()
	var runners []runner
	for _, c := range contestants() {
		t, err := c.build(w.allow)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		for _, key := range keys {
			t(key)
		}
		runners = append(runners, runner{name: c.name, block: blocks(t, keys, order, cpus)})
	}
	return o.race(cpus).interleave(runners), nil
}

// blocks accesses the keys in a circle of order, each CPU from its own position.
func blocks(t take, keys []string, order []uint32, cpus int) func(cpu int) int {
	type cursor struct {
		next int
		_    [56]byte // padding to a cache line
	}
	cursors := make([]cursor, cpus)
	for cpu := range cursors {
		cursors[cpu].next = cpu * (len(order) / cpus)
	}
	return func(cpu int) int {
		at := &cursors[cpu].next
		if *at+blockCalls > len(order) {
			*at = 0
		}
		for _, i := range order[*at:][:blockCalls] {
			t(keys[i])
		}
		*at += blockCalls
		return blockCalls
	}
}

// speed measures every workload on one CPU and on two.
func speed(o options, out io.Writer, b *bars) error {
	for _, w := range workloads() {
		if !o.runs(w.name) {
			continue
		}
		for _, cpus := range []int{1, 2} {
			t, err := w.run(o, cpus)
			if err != nil {
				return err
			}
			printRace(out, fmt.Sprintf("%s: %d keys, %d CPU", w.name, w.keys, cpus), t)
			b.judgeSpeed(w.name, cpus, t)
		}
	}
	return nil
}

func printRace(out io.Writer, title string, t timings) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "\n%s\t\n\tns a call\tof %s\t\n", title, referenceName)
	for _, c := range contestants() {
		fmt.Fprintf(table, "%s\t%.1f\t%.2f\t\n", c.name, t.ns(c.name), t.ratio(c.name, referenceName))
	}
	table.Flush()
}
