package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options says which parts run, and for how long.
type options struct {
	only   []string // the parts to run; empty: all
	rounds int      // of a race; one more, which does not count, runs first
	slice  time.Duration
	keys   int           // number of keys of the parts that need many
	here   string        // the work of -here; empty: run the parts
	stint  string        // the program, for the parts that start it
	churn  time.Duration // of the keys of a database
	redis  string        // the Redis server to start; empty: the one in PATH
	busy   bool          // the machine has other load: measure processor time
}

// race returns a race on a number of CPUs with these options.
func (o options) race(cpus int) race {
	r := race{rounds: o.rounds, slice: o.slice, cpus: cpus, callers: cpus, clock: wallClock}
	if o.busy {
		r.clock = processorClock(cpus)
	}
	return r
}

// runs reports whether a part runs. The name of a part of parts begins with theirs and a slash.
func (o options) runs(part string) bool {
	whole, _, _ := strings.Cut(part, "/")
	return len(o.only) == 0 || slices.Contains(o.only, part) || slices.Contains(o.only, whole)
}

// partNames are the values of -only, in the order in which the parts run.
var partNames = []string{"hot", "uniform", "zipf", "fill", "batch", "flood", "redis", "stores", "stores/all", "stores/postgres", "stores/memcached", "stores/quorum", "stores/dynamo", "algorithms", "lease", "server", "observability", "envoy", "gateway", "replay"}

func main() {
	o, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fail(err, 2)
	}
	if err := run(context.Background(), o, os.Stdout); err != nil {
		fail(err, 1)
	}
}

func fail(err error, status int) {
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(status)
}

func run(ctx context.Context, o options, out io.Writer) error {
	if o.here != "" {
		return here(o.here, o.keys, out)
	}
	for _, c := range contestants() {
		if err := c.checkLimits(); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%s, %d CPUs, %s\n", runtime.Version(), runtime.NumCPU(), time.Now().UTC().Format(time.DateTime))
	return runParts(ctx, o, out)
}

// runParts runs the selected parts and then prints which bars were met.
func runParts(ctx context.Context, o options, out io.Writer) error {
	var b bars
	if err := speed(o, out, &b); err != nil {
		return err
	}
	// The parts below start processes, which they stop when a signal comes.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, p := range []struct {
		name string
		run  func(context.Context, options, io.Writer, *bars) error
	}{{"fill", fill}, {"batch", batch}, {"flood", flooding}, {"redis", overRedis}, {"stores/all", overAllStores}, {"stores/postgres", overPostgres}, {"stores/memcached", overMemcached}, {"stores/quorum", overQuorum}, {"stores/dynamo", overDynamo}, {"algorithms", algorithms}, {"lease", overLeases}, {"server", overServers}, {"observability", overObservability}, {"envoy", overEnvoy}, {"envoy", overEnvoyService}, {"gateway", overGateway}, {"replay", replaying}} {
		if !o.runs(p.name) {
			continue
		}
		if err := errors.Join(p.run(ctx, o, out, &b), ctx.Err()); err != nil {
			return err
		}
	}
	b.print(out)
	return nil
}

func parse(args []string) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	only := flags.String("only", "", "run these parts alone: "+strings.Join(partNames, ","))
	flags.StringVar(&o.here, "here", "", "do this alone: flood or fill:NAME, and print what it took as JSON, or "+emptyWork+", "+applicationWork+" or "+collectorWork)
	flags.StringVar(&o.stint, "stint", "../bin/stint", "the program that the parts lease, server, observability, envoy, gateway and replay start")
	server := flags.String("server", "", "start this Redis server of .cache/servers, in place of that of PATH: "+strings.Join(redisServers, " or "))
	flags.IntVar(&o.keys, "keys", 10_000_000, "keys of fill and batch, and events of replay; flood brings twice as many, redis at most 1,000,000")
	flags.IntVar(&o.rounds, "rounds", 11, "rounds of a race, at least 1; redis has twice as many")
	flags.DurationVar(&o.slice, "slice", 100*time.Millisecond, "how long a contestant runs in each round")
	flags.DurationVar(&o.churn, "churn", 10*time.Minute, "how long stores changes the keys of a database")
	flags.BoolVar(&o.busy, "busy", false, "count processor time, for a machine that is busy with other work")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	for _, part := range o.only {
		if !slices.Contains(partNames, part) {
			return o, fmt.Errorf("-only: %q is unknown: use some of %s", part, strings.Join(partNames, ","))
		}
	}
	if *server != "" {
		path, err := pinnedRedis(*server)
		if err != nil {
			return o, fmt.Errorf("-server: %w", err)
		}
		o.redis = path
	}
	return o, o.check()
}

// check refuses options under which nothing would be measured and every bar would be met.
func (o options) check() error {
	switch {
	case o.rounds < 1:
		return fmt.Errorf("-rounds: %d is too few: use at least 1", o.rounds)
	case o.slice < time.Millisecond:
		return fmt.Errorf("-slice: %v is too short: use at least 1ms", o.slice)
	case o.keys < batchSize:
		return fmt.Errorf("-keys: %d are too few: use at least %d", o.keys, batchSize)
	}
	return nil
}
