package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/lease"
)

// leaseNodes is the number of nodes that share one server and one hot key.
const leaseNodes = 3

// overLeases measures nodes that lease one hot key from a Redis server: below its limit
// at full speed, and beyond a limit. Then it measures a server that leases many keys.
func overLeases(ctx context.Context, o options, out io.Writer, b *bars) error {
	if o.lacksRedis(out, "lease") {
		return nil
	}
	if err := pinnedLeases(ctx, o, out, b); err != nil {
		return err
	}
	return servedLeases(ctx, o, out, b)
}

func pinnedLeases(ctx context.Context, o options, out io.Writer, b *bars) (err error) {
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
	fmt.Fprintf(out, "\nlease: %d nodes, one hot key, %s, %s\n", leaseNodes, version, pins)
	for _, one := range []leasing{
		{"under its limit", stint.Spec{Rule: "under", Limit: 100_000_000, Window: time.Second}, 0},
		{"over its limit", stint.Spec{Rule: "over", Limit: 10_000, Window: time.Second}, 2 * time.Second},
	} {
		if err := s.lease(ctx, o, one, out, b); err != nil {
			return err
		}
	}
	return nil
}

// leasing is one workload: a limit, and how long its initial burst lasts.
type leasing struct {
	name string
	spec stint.Spec
	warm time.Duration
}

// lease runs a workload and reports it.
func (s *redisServer) lease(ctx context.Context, o options, l leasing, out io.Writer, b *bars) error {
	limit, err := l.spec.Compile()
	if err != nil {
		return err
	}
	nodes, leave, err := s.leasers()
	if err != nil {
		return err
	}
	defer leave()
	drive(nodes, limit, l.warm+time.Second/2)
	before, err := s.scriptCalls(ctx)
	if err != nil {
		return err
	}
	seen := drive(nodes, limit, time.Duration(o.rounds)*10*o.slice)
	after, err := s.scriptCalls(ctx)
	if err != nil {
		return err
	}
	seen.report(l, after-before, out, b)
	return nil
}

// leasers returns nodes that are configured as stint serve does.
func (s *redisServer) leasers() (nodes []stint.Store, leave func(), err error) {
	var leaves []func() error
	leave = func() {
		for _, leave := range slices.Backward(leaves) {
			_ = leave()
		}
	}
	for range leaseNodes {
		shared, err := s.newStint()
		if err != nil {
			return nil, leave, err
		}
		guarded, err := guard.New(shared, guard.Options{Deadline: time.Second})
		if err != nil {
			return nil, leave, err
		}
		leased, err := lease.New(guarded, lease.Options{})
		if err != nil {
			return nil, leave, err
		}
		nodes = append(nodes, leased)
		leaves = append(leaves, shared.Close, guarded.Close, leased.Close)
	}
	return nodes, leave, nil
}

// leaseSeen holds the measurements of the callers of all nodes.
type leaseSeen struct {
	checks, admitted int64
	took             time.Duration
	p99, p999        time.Duration // percentiles of every hundredth check
}

// drive checks one key on every node, with one caller each at full speed.
func drive(nodes []stint.Store, limit stint.Limit, d time.Duration) (seen leaseSeen) {
	var wait sync.WaitGroup
	var mutex sync.Mutex
	var samples []time.Duration
	var checks, admitted atomic.Int64
	began := time.Now()
	for _, node := range nodes {
		wait.Go(func() {
			mine, n, ok := driveOne(node, limit, began.Add(d))
			checks.Add(n)
			admitted.Add(ok)
			mutex.Lock()
			defer mutex.Unlock()
			samples = append(samples, mine...)
		})
	}
	wait.Wait()
	slices.Sort(samples)
	seen.took = time.Since(began)
	seen.checks, seen.admitted = checks.Load(), admitted.Load()
	seen.p99, seen.p999 = samples[len(samples)*99/100], samples[len(samples)*999/1000]
	return seen
}

func driveOne(node stint.Store, limit stint.Limit, end time.Time) (samples []time.Duration, checks, admitted int64) {
	const sampled = 100
	claim := stint.Claim{Key: "hot", Limit: limit, Cost: 1, Policy: stint.Policy{Consistency: stint.Leased}}
	ctx := context.Background()
	for start := time.Now(); start.Before(end); start = time.Now() {
		for i := range sampled {
			d, err := node.Take(ctx, claim)
			if i == 0 {
				samples = append(samples, time.Since(start))
			}
			if err == nil && d.Allowed {
				admitted++
			}
		}
		checks += sampled
		runtime.Gosched()
	}
	return samples, checks, admitted
}

var scriptStat = regexp.MustCompile(`cmdstat_evalsha:calls=([0-9]+)`)

// scriptCalls returns how many times the server has run a script.
func (s *redisServer) scriptCalls(ctx context.Context) (int64, error) {
	text, err := s.admin.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, err
	}
	found := scriptStat.FindStringSubmatch(text)
	if found == nil {
		return 0, nil
	}
	return strconv.ParseInt(found[1], 10, 64)
}

func (l leaseSeen) report(what leasing, calls int64, out io.Writer, b *bars) {
	cores := float64(runtime.GOMAXPROCS(0))
	rate := float64(l.checks) / l.took.Seconds() / cores
	fmt.Fprintf(out, "  %s: %.0f checks/s a core, p99 %v, p99.9 %v, %d admitted, %.0f calls/s\n",
		what.name, rate, l.p99, l.p999, l.admitted, float64(calls)/l.took.Seconds())
	if what.warm > 0 {
		b.judge("lease, "+what.name, float64(calls)/float64(l.admitted), 1.2, "calls an admission")
		return
	}
	b.judgeLeast("lease, "+what.name, rate, 3_000_000, "checks/s a core")
	b.judge("lease, "+what.name+", p99", microseconds(l.p99), 10, "µs")
	b.judge("lease, "+what.name, float64(calls)/l.took.Seconds(), 50, "calls/s")
}
