package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// options is which parts run, and for how long.
type options struct {
	only   []string // the parts to run; empty: all
	rounds int      // of a race; the first, which does not count, is extra
	slice  time.Duration
	busy   bool // the machine has other work: count processor time
}

// race is the options as a race on so many CPUs.
func (o options) race(cpus int) race {
	r := race{rounds: o.rounds, slice: o.slice, cpus: cpus, now: wallClock}
	if o.busy {
		r.now = processorTime(cpus)
	}
	return r
}

func (o options) runs(part string) bool {
	return len(o.only) == 0 || slices.Contains(o.only, part)
}

// partNames is what -only understands, in the order in which parts run.
var partNames = []string{"hot", "uniform", "zipf"}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	for _, c := range contestants() {
		if err := c.checkLimits(); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%s, %d CPUs, %s\n", runtime.Version(), runtime.NumCPU(), time.Now().UTC().Format(time.DateTime))
	var b bars
	if err := speed(o, out, &b); err != nil {
		return err
	}
	b.print(out)
	return nil
}

func parse(args []string) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	only := flags.String("only", "", "run these parts alone: "+strings.Join(partNames, ","))
	flags.IntVar(&o.rounds, "rounds", 11, "rounds of a race")
	flags.DurationVar(&o.slice, "slice", 100*time.Millisecond, "how long a contestant runs in each round")
	flags.BoolVar(&o.busy, "busy", false, "count processor time, for a machine that is busy with other work")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	for _, part := range o.only {
		if !slices.Contains(partNames, part) {
			return o, fmt.Errorf("-only: %q is no part: use some of %s", part, strings.Join(partNames, ","))
		}
	}
	return o, nil
}
