package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/dynamostore"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/layered"
)

// overDynamo counts the writes that leased checks on one hot key cost in DynamoDB, which
// makes at most 1,000 writes of one key a second. Speed is not judged: the server is an
// emulator.
func overDynamo(ctx context.Context, o options, out io.Writer, b *bars) error {
	return withHost(out, func(h *host) error {
		client, err := newTable(ctx, h)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "\nstores: DynamoDB, emulated by dynalite; %d nodes, one hot key, leased\n", leaseNodes)
		for _, l := range []leasing{
			{"under its limit", stint.Spec{Rule: "under", Limit: 100_000_000, Window: time.Second}, 0},
			{"over its limit", stint.Spec{Rule: "over", Limit: 10_000, Window: time.Second}, 2 * time.Second},
		} {
			s, err := leaseFromDynamo(ctx, o, client, l)
			if err != nil {
				return err
			}
			seconds := s.took.Seconds()
			fmt.Fprintf(out, "  %s: %.0f checks/s, %.0f admitted/s, %.0f writes/s, %d decided without the store\n", l.name,
				float64(s.checks.Load())/seconds, float64(s.admitted.Load())/seconds, float64(s.writes)/seconds, s.degraded.Load())
			b.judge("stores, DynamoDB, "+l.name, 100*float64(s.writes)/float64(max(s.checks.Load(), 1)), 1, "writes in 100 checks")
		}
		return nil
	})
}

// dynamoSeen holds the measurements of all nodes.
type dynamoSeen struct {
	checks, admitted, degraded atomic.Int64
	writes                     uint64
	took                       time.Duration
}

// leaseFromDynamo checks one key on nodes, each with a store of its own.
func leaseFromDynamo(ctx context.Context, o options, client dynamostore.Options, l leasing) (seen *dynamoSeen, err error) {
	limit, err := l.spec.Compile()
	if err != nil {
		return nil, err
	}
	var clients []*dynamostore.Store
	var nodes []stint.Store
	for range leaseNodes {
		one, err := dynamostore.New(client)
		if err != nil {
			return nil, err
		}
		node, err := layered.New(ctx, one, layered.Options{Guard: guard.Options{Deadline: time.Second}}) // an emulator is slow
		if err != nil {
			return nil, err
		}
		defer node.Close()
		clients, nodes = append(clients, one), append(nodes, node)
	}
	written := func() (n uint64) {
		for _, c := range clients {
			n += c.Stats().Swaps
		}
		return n
	}
	checkAll(ctx, nodes, limit, l.warm+time.Second/2)
	before := written()
	seen = checkAll(ctx, nodes, limit, time.Duration(o.rounds)*10*o.slice)
	seen.writes = written() - before
	return seen, nil
}

// checkAll checks one key on every node, with one caller each. The callers pause, so that
// the emulator, which runs on the same machine, has time to answer.
func checkAll(ctx context.Context, nodes []stint.Store, limit stint.Limit, d time.Duration) *dynamoSeen {
	const between, pause = 100, 100 * time.Microsecond
	claim := stint.Claim{Key: "hot", Limit: limit, Cost: 1, Policy: stint.Policy{Consistency: stint.Leased}}
	seen := &dynamoSeen{}
	var callers sync.WaitGroup
	began := time.Now()
	for _, node := range nodes {
		callers.Go(func() {
			for time.Since(began) < d && ctx.Err() == nil {
				for range between {
					switch d, err := node.Take(ctx, claim); {
					case err != nil || d.Degraded:
						seen.degraded.Add(1)
					case d.Allowed:
						seen.admitted.Add(1)
					}
				}
				seen.checks.Add(between)
				time.Sleep(pause)
			}
		})
	}
	callers.Wait()
	seen.took = time.Since(began)
	return seen
}
