package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	stintv1 "github.com/stintdev/stint/api/stint/v1"
)

// What published designs give to 20 gateways and 6 Redis shards.
const servedPromise = 1_700_000 // checks a second

// A batch of the load, and the hot keys that it walks through.
const (
	servedBatch = 1000
	servedKeys  = 1000
)

// servedLeases asks stint serve, which leases from a Redis server, by batches
// of the native protocol. Redis, the server and the load share the CPUs.
func servedLeases(ctx context.Context, o options, out io.Writer, b *bars) (err error) {
	if _, err := os.Stat(o.stint); err != nil {
		fmt.Fprintf(out, "  served: skipped, there is no %s (make build)\n", o.stint)
		return nil
	}
	s, err := startRedis(ctx, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	var f field
	defer func() { err = errors.Join(err, f.close()) }()
	ours, err := startStint(ctx, o.stint, "--store", "redis://"+s.addr()+"/0", "--store-deadline", "1s", "--store-slow", "0")
	if err != nil {
		return err
	}
	f.closing(ours.stop)
	conns, err := f.dial(ours.addrs["grpc"])
	if err != nil {
		return err
	}
	clients := each(conns, stintv1.NewLimiterServiceClient)
	load := func(d time.Duration) (int64, error) { return askLeased(ctx, clients, d) }
	if _, err := load(time.Second); err != nil {
		return err
	}
	before, err := s.scriptCalls(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	checks, err := load(time.Duration(o.rounds) * 5 * o.slice)
	if err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	after, err := s.scriptCalls(ctx)
	fmt.Fprintf(out, "  served by gRPC in batches of %d, %d hot keys: %.0f checks/s, %.0f calls/s to Redis\n",
		servedBatch, servedKeys, float64(checks)/took, float64(after-before)/took)
	b.judgeLeast("lease, served", float64(checks)/took, servedPromise, "checks/s")
	return err
}

// askLeased is a load on all connections for a time. It returns how many
// checks were admitted.
func askLeased(ctx context.Context, clients []stintv1.LimiterServiceClient, d time.Duration) (int64, error) {
	keys := newKeyText(servedKeys).list()
	end := time.Now().Add(d)
	var admitted atomic.Int64
	var wait sync.WaitGroup
	problems := make(chan error, len(clients))
	for _, client := range clients {
		wait.Go(func() {
			request := &stintv1.TakeBatchRequest{Limits: []*stintv1.Limit{leasedLimit()}, Keys: keys[:servedBatch],
				Consistency: []stintv1.Consistency{stintv1.Consistency_CONSISTENCY_LEASED}}
			for time.Now().Before(end) {
				answer, err := client.TakeBatch(ctx, request)
				switch {
				case err != nil:
					problems <- err
					return
				case len(answer.GetFailures()) > 0:
					problems <- fmt.Errorf("a group failed: %v", answer.GetFailures()[0])
					return
				}
				admitted.Add(allowedOf(answer.GetDecisions().GetAllowed()))
			}
		})
	}
	wait.Wait()
	close(problems)
	return admitted.Load(), <-problems // nil when there is none
}

// allowedOf counts a column, in which one entry is that of all.
func allowedOf(column []bool) (n int64) {
	for _, allowed := range column {
		if allowed {
			n++
		}
	}
	if len(column) == 1 {
		n *= servedBatch
	}
	return n
}

// leasedLimit is above what is asked for.
func leasedLimit() *stintv1.Limit {
	return &stintv1.Limit{Limit: 100_000, WindowUs: time.Second.Microseconds()}
}
