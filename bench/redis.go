package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// identityLength is the length of the identities in the keys of Redis.
const identityLength = 13

// identities returns n different identities.
func identities(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("user:%0*d", identityLength-len("user:"), i)
	}
	return list
}

// overRedis compares the limiters that keep their states on a Redis server, all on one
// server that it starts, and measures the memory of a key.
func overRedis(ctx context.Context, o options, out io.Writer, b *bars) (err error) {
	if o.lacksRedis(out, "redis") {
		return nil
	}
	pins := newPinning()
	release, err := pins.hold(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := raceOverRedis(ctx, o, pins, out, b); err != nil {
		return err
	}
	return weighRedis(ctx, o, pins, out, b)
}

// raceOverRedis runs every workload on one server.
func raceOverRedis(ctx context.Context, o options, pins pinning, out io.Writer, b *bars) (err error) {
	s, version, err := startVersionedRedis(ctx, o.findRedis(), pins.server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	fmt.Fprintf(out, "\nredis: %s, %s\n", version, pins)
	if err := s.checkLimits(); err != nil {
		return err
	}
	keys := identities(min(o.keys, 100_000))
	for _, c := range callings() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.race(o, c, keys, out, b); err != nil {
			return err
		}
	}
	return s.reportCeiling(ctx, o, pins, out)
}

// checkLimits is contestant.checkLimits over the network.
func (s *redisServer) checkLimits() error {
	for _, c := range s.contestants() {
		t, leave, err := c.build(checked())
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		err = checkTake(c.name, t)
		leave()
		if err != nil {
			return err
		}
	}
	return s.admin.FlushAll(context.Background()).Err()
}

// race runs one workload with all contestants, on one CPU if the client has only one.
func (s *redisServer) race(o options, c calling, keys []string, out io.Writer, b *bars) error {
	var runners []runner
	seen := map[string]*answers{}
	for _, one := range s.contestants() {
		t, leave, err := one.build(ample())
		if err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		defer leave()
		seen[one.name] = newAnswers(c.callers, c.parts())
		runners = append(runners, c.runner(one.name, t, keys, seen[one.name]))
	}
	r := c.race(o)
	if o.busy {
		r.clock = bothClock(s.process.Process.Pid, c.callers)
	}
	result := networkRace{c, r.interleave(runners), seen}
	result.print(out, s.contestants())
	result.judge(b)
	return nil
}

// networkRace is the result of a workload.
type networkRace struct {
	calling

	timings timings
	seen    map[string]*answers
}

func (c calling) String() string {
	what := "distinct keys"
	if c.hot {
		what = "one hot key"
	}
	if c.callers == 1 {
		return fmt.Sprintf("redis, %s, 1 goroutine", what)
	}
	return fmt.Sprintf("redis, %s, %d goroutines", what, c.callers)
}

func (n networkRace) print(out io.Writer, who []networked) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "\n%s\t\n\tchecks/s\tof %s\tp50\tp99\tp99.9\tnot admitted\t\n", n.String(), rateName)
	for _, c := range who {
		a := n.seen[c.name]
		fmt.Fprintf(table, "%s\t%.0f\t%.2f\t%v\t%v\t%v\t%.2g %%\t\n", c.name, 1e9/n.timings.ns(c.name), n.timings.ratio(rateName, c.name),
			readable(a.P50), readable(a.P99), readable(a.P999), 100*float64(a.Refused)/float64(max(a.Calls, 1)))
	}
	table.Flush()
}

// tails returns the p99 of every contestant in each round.
func (n networkRace) tails() timings {
	t := timings{}
	for name, a := range n.seen {
		t[name] = a.P99
	}
	return t
}

// readable returns the median of figures in nanoseconds.
func readable(ns []float64) time.Duration {
	return time.Duration(median(ns)).Round(time.Microsecond)
}

// judge adds the bars of a workload.
func (n networkRace) judge(b *bars) {
	ahead := func(of string) float64 { return n.timings.ratio(of, stintName) }
	title := n.String()
	switch {
	case n.hot:
		b.judgeLeast(title, ahead(rateName), 20, "of "+rateName)
	case n.callers == 1:
		b.judge(title+", time", n.timings.ratio(stintName, plainName), 1.05, "of "+plainName)
	case n.callers >= 64:
		b.judgeLeast(title, ahead(rateName), 3, "of "+rateName)
		b.judgeLeast(title, ahead(plainName), 1.4, "of "+plainName)
		b.judge(title+", p99", n.tails().ratio(stintName, rateName), 1, "of "+rateName)
	}
}

// reportCeiling measures the maximum throughput of the server with its own benchmark
// program.
func (s *redisServer) reportCeiling(ctx context.Context, o options, pins pinning, out io.Writer) error {
	calls, err := s.ceiling(ctx, pins.client, min(o.keys, 100_000), o.rounds*20_000)
	if err != nil {
		return err
	}
	if calls == 0 {
		fmt.Fprintln(out, "\nredis-benchmark is not installed: the ceiling is not measured")
		return nil
	}
	fmt.Fprintf(out, "\nredis-benchmark, EVALSHA of the plain script, 64 to a pipeline: %.0f calls/s\n", calls)
	return nil
}
