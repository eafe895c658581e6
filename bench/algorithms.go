package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/stintdev/stint"
)

// algorithm is an algorithm over Redis, with the p99 of a check that Stint promises for
// it; 0: none.
type algorithm struct {
	spec     stint.Spec
	promised time.Duration
}

// algorithmsOverRedis returns the algorithms with limits that never deny here. Keys live
// longer than a race.
func algorithmsOverRedis() []algorithm {
	windowed := func(a stint.Algorithm, limit int64) stint.Spec {
		return stint.Spec{Namespace: "bench", Rule: "algorithms", Algorithm: a, Limit: limit, Window: time.Hour}
	}
	return []algorithm{
		{windowed(stint.FixedWindow, 1_000_000), time.Millisecond},
		{windowed(stint.SlidingWindowLog, 10_000), 2 * time.Millisecond},
		{windowed(stint.TokenBucket, 1_000_000), 1500 * time.Microsecond},
		{windowed(stint.SlidingWindowCounter, 1_000_000), 1200 * time.Microsecond},
		{windowed(stint.GCRA, 1_000_000), 0},
		{windowed(stint.LeakyBucket, 1_000_000_000), 0},
		{stint.Spec{Namespace: "bench", Rule: "algorithms", Algorithm: stint.Quota, Limit: 1_000_000, Period: "month"}, 0},
	}
}

// algorithms measures a check of each algorithm on one Redis server that it starts.
func algorithms(ctx context.Context, o options, out io.Writer, b *bars) (err error) {
	if o.lacksRedis(out, "algorithms") {
		return nil
	}
	pins := newPinning()
	release, err := pins.hold(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	s, version, err := startVersionedRedis(ctx, o.findRedis(), pins.server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	fmt.Fprintf(out, "\nalgorithms: %s, %s\n", version, pins)
	keys := identities(min(o.keys, 100_000))
	for _, c := range []calling{{1, false}, {64, false}} {
		if err := errors.Join(s.raceAlgorithms(o, c, keys, out, b), ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// raceAlgorithms runs one workload with every algorithm, in turns.
func (s *redisServer) raceAlgorithms(o options, c calling, keys []string, out io.Writer, b *bars) error {
	store, err := s.newStint()
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	all := algorithmsOverRedis()
	seen := make([]*answers, len(all))
	var runners []runner
	for i, a := range all {
		l, err := a.spec.Compile()
		if err != nil {
			return err
		}
		t := func(key string) bool {
			d, err := store.Take(context.Background(), stint.Claim{Key: key, Limit: l, Cost: 1})
			return err == nil && d.Allowed
		}
		seen[i] = newAnswers(c.callers, c.parts())
		runners = append(runners, c.runner(a.spec.Algorithm.String(), t, keys, seen[i]))
	}
	floor := newAnswers(c.callers, c.parts())
	runners = append(runners, c.runner(pingName, func(string) bool { return s.admin.Ping(context.Background()).Err() == nil }, keys, floor))
	t := c.race(o).interleave(runners)
	fmt.Fprintf(out, "\nload: %s\n", closedLoad(c.callers, len(keys)))
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "%s\t\n\tchecks/s\tp50\tp99\tpromised p99\tnot admitted\t\n", c.String())
	for i, a := range all {
		name, promised := a.spec.Algorithm.String(), "-"
		if a.promised > 0 {
			promised = a.promised.String()
		}
		if a.promised > 0 && c.callers == 1 { // see closedLoad
			b.judge(fmt.Sprintf("%s, %s, p99", c, name), median(seen[i].P99)/1000, microseconds(a.promised), "µs")
		}
		fmt.Fprintf(table, "%s\t%.0f\t%v\t%v\t%s\t%.2g %%\t\n", name, 1e9/t.ns(name), readable(seen[i].P50), readable(seen[i].P99),
			promised, 100*float64(seen[i].Refused)/float64(max(seen[i].Calls, 1)))
	}
	fmt.Fprintf(table, "%s\t%.0f\t%v\t%v\t-\t%.2g %%\t\n", pingName, 1e9/t.ns(pingName), readable(floor.P50), readable(floor.P99),
		100*float64(floor.Refused)/float64(max(floor.Calls, 1)))
	return table.Flush()
}

// closedLoad describes the load of a number of callers. A caller waits for the answer to a
// check before it sends the next. The promised p99 is that of a check, so it is judged where no check
// waits for another: with one caller. Many callers keep the client's CPU busy all the time,
// and their p99 is mostly the wait for it.
func closedLoad(callers, keys int) string {
	if callers == 1 {
		return fmt.Sprintf("one check in flight at any time, on %d keys in turn: no check waits for another, and p99 is that of a round trip", keys)
	}
	return fmt.Sprintf("%d checks in flight at any time, on %d keys in turn: as many checks as client and server can decide, and p99 has the wait of a check for the others", callers, keys)
}
