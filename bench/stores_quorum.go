package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/stintdev/stint/quorumstore"
)

// The names of the contestants of overQuorum.
const (
	quorumName    = "quorum of three servers"
	oneServerName = "redisstore, one server"
)

// overQuorum compares the store in a quorum of three servers with the one in a single server,
// which has no other load.
func overQuorum(ctx context.Context, o options, out io.Writer, b *bars) error {
	return withHost(out, func(h *host) error {
		q, err := startQuorum(ctx, o, h)
		if err != nil {
			return err
		}
		one, version, err := startVersionedRedis(ctx, o.findRedis(), "")
		if err != nil {
			return err
		}
		h.Cleanup(func() { _ = one.stop() })
		fmt.Fprintf(out, "\nstores: a quorum of three servers beside one, %s, not pinned\n", version)
		keys := identities(min(o.keys, 120_000))
		known, unknown := keys[:len(keys)/6], keys[len(keys)/6:]
		for _, l := range []quorumLoad{
			{calling{1, false}, "", known}, {calling{16, false}, "", known}, {calling{16, false}, ", new", unknown}, {calling{16, true}, "", known},
		} {
			if err := errors.Join(q.race(o, l, one, out, b), ctx.Err()); err != nil {
				return err
			}
		}
		return nil
	})
}

// quorum is the servers of a quorum.
type quorum []*redisServer

// startQuorum starts three servers, which end with the host.
func startQuorum(ctx context.Context, o options, h *host) (quorum, error) {
	if o.findRedis() == "" {
		h.Skip("no redis-server or valkey-server is installed")
	}
	var q quorum
	for range 3 {
		s, err := startRedis(ctx, o.findRedis(), "")
		if err != nil {
			return nil, err
		}
		h.Cleanup(func() { _ = s.stop() })
		q = append(q, s)
	}
	return q, nil
}

func inQuorum(ctx context.Context, o options, h *host) (func(allowance) (take, func(), error), error) {
	q, err := startQuorum(ctx, o, h)
	return q.stint, err
}

// stint is the store with a longer timeout than the default, as newStint.
func (q quorum) stint(a allowance) (take, func(), error) {
	o := quorumstore.Options{Timeout: 10 * time.Second}
	for _, s := range q {
		o.Servers = append(o.Servers, s.addr())
	}
	store, err := quorumstore.New(o)
	if err != nil {
		return nil, nil, err
	}
	t, err := takeOf(store, a)
	return t, func() { _ = store.Close() }, err
}

// quorumLoad is a workload of overQuorum. A check of a new key takes three round trips, and
// one of a key that its node wrote last takes one; the bars are of the latter.
type quorumLoad struct {
	calling

	kind string
	keys []string
}

func (l quorumLoad) isNew() bool { return l.kind != "" }

// warm takes each key as often as it takes until a node writes it without a read.
func warm(t take, keys []string) {
	const takes, callers = 3, 64
	for range takes {
		var wait sync.WaitGroup
		for caller := range callers {
			wait.Go(func() {
				for i := caller; i < len(keys); i += callers {
					t(keys[i])
				}
			})
		}
		wait.Wait()
	}
}

// processes returns the ids of the servers.
func (q quorum) processes() (ids []int) {
	for _, s := range q {
		ids = append(ids, s.process.Process.Pid)
	}
	return ids
}

func (q quorum) race(o options, c quorumLoad, one *redisServer, out io.Writer, b *bars) error {
	var runners []runner
	seen, used := map[string]*answers{}, map[string]*processorUse{}
	contestants := []networked{{quorumName, q.stint}, {oneServerName, one.stint}}
	servers := map[string][]int{quorumName: q.processes(), oneServerName: quorum{one}.processes()}
	for _, who := range contestants {
		t, leave, err := who.build(ample())
		if err != nil {
			return fmt.Errorf("%s: %w", who.name, err)
		}
		defer leave()
		if !t(c.keys[0]) { // also founds the quorum
			return fmt.Errorf("%s: the first check is not admitted", who.name)
		}
		if !c.isNew() {
			warm(t, c.keys)
		}
		seen[who.name], used[who.name] = newAnswers(c.callers, c.parts()), &processorUse{servers: servers[who.name]}
		r := c.runner(who.name, t, c.keys, seen[who.name])
		r.clock = used[who.name].clock(o.busy)
		runners = append(runners, r)
	}
	r := networkRace{c.calling, c.race(o).interleave(runners), seen}
	title := "quorum" + r.String()[len("redis"):] + c.kind
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "\n%s\t\n\tchecks/s\tratio\tp50\tp99\tCPU a check\tnot admitted\t\n", title)
	for _, who := range contestants {
		a := seen[who.name]
		fmt.Fprintf(table, "%s\t%.0f\t%.2f\t%v\t%v\t%v\t%.2g %%\t\n", who.name, 1e9/r.timings.ns(who.name), r.timings.ratio(oneServerName, who.name),
			readable(a.P50), readable(a.P99), used[who.name].each(a.Calls), 100*float64(a.Refused)/float64(max(a.Calls, 1)))
	}
	table.Flush()
	switch {
	case c.isNew():
	case c.hot:
		b.judgeLeast(title, r.timings.ratio(oneServerName, quorumName), 0.1, "of one server")
	case c.callers == 16:
		b.judgeLeast(title, r.timings.ratio(oneServerName, quorumName), 0.15, "of one server")
		b.judge(title+", p99", median(seen[quorumName].P99)/median(seen[oneServerName].P99), 10, "of one server")
	}
	return nil
}

// processorUse adds up the processor time of this process and of servers in the slices of a
// runner.
type processorUse struct {
	servers []int
	slices  []time.Duration // the first one does not count
}

// clock returns a clock that also adds up. On a busy machine it measures processor time
// alone.
func (u *processorUse) clock(busy bool) clock {
	return func() func() time.Duration {
		elapsed, used := wallClock(), sharedClock(u.servers, 1)()
		return func() time.Duration {
			spent := used()
			u.slices = append(u.slices, spent)
			if busy {
				return spent
			}
			return elapsed()
		}
	}
}

// each returns the processor time of a call.
func (u *processorUse) each(calls int) (all time.Duration) {
	for _, spent := range u.slices[1:] {
		all += spent
	}
	return (all / time.Duration(max(calls, 1))).Round(100 * time.Nanosecond)
}
