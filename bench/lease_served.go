package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	stintv1 "github.com/stintdev/stint/api/stint/v1"
)

// The published throughput of a design with 20 gateways and 6 Redis shards.
const servedPromise = 1_700_000 // checks a second

// servedBatch is the number of checks in one call, over servedKeys hot keys;
// servedCallers call concurrently.
const (
	servedBatch   = 1000
	servedKeys    = 100
	servedCallers = 8
)

// servedLeases measures stint serve, which leases from a Redis server, with batches of
// the native protocol. Redis, the server and the load share the CPUs.
func servedLeases(ctx context.Context, o options, out io.Writer, b *bars) (err error) {
	if o.lacksStint(out, "  served") {
		return nil
	}
	s, err := startRedis(ctx, o.findRedis(), "")
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
	load := func(callers int, d time.Duration) (int64, error) { return askLeased(ctx, conns, callers, d) }
	if _, err := load(1, time.Second); err != nil { // the keys become hot
		return err
	}
	before, err := s.scriptCalls(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	checks, err := load(servedCallers, time.Duration(o.rounds)*5*o.slice)
	if err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	after, err := s.scriptCalls(ctx)
	fmt.Fprintf(out, "  served by gRPC in batches of %d checks of %d hot keys: %.0f checks/s, %.0f calls/s to Redis\n",
		servedBatch, servedKeys, float64(checks)/took, float64(after-before)/took)
	b.judgeLeast("lease, served", float64(checks)/took, servedPromise, "checks/s")
	return err
}

// askLeased loads all connections for a time. It returns how many checks were admitted.
// To leave the CPUs to the server, it encodes the request once and reads only the
// decisions of the answers.
func askLeased(ctx context.Context, conns []*grpc.ClientConn, callers int, d time.Duration) (int64, error) {
	request, err := proto.Marshal(&stintv1.TakeBatchRequest{Limits: []*stintv1.Limit{leasedLimit()},
		Keys: slices.Repeat(newKeyText(servedKeys).list(), servedBatch/servedKeys), Consistency: []stintv1.Consistency{stintv1.Consistency_CONSISTENCY_LEASED}})
	if err != nil {
		return 0, err
	}
	end := time.Now().Add(d)
	var admitted atomic.Int64
	var wait sync.WaitGroup
	problems := make(chan error, callers)
	for i := range callers {
		conn := conns[i%len(conns)]
		wait.Go(func() {
			for time.Now().Before(end) {
				var answer []byte
				err := conn.Invoke(ctx, stintv1.LimiterService_TakeBatch_FullMethodName, request, &answer, grpc.ForceCodec(raw{}))
				if err == nil {
					err = allAllowed(answer)
				}
				if err != nil {
					problems <- err
					return
				}
				admitted.Add(servedBatch)
			}
		})
	}
	wait.Wait()
	close(problems)
	return admitted.Load(), <-problems // nil when there is none
}

// allAllowed returns an error unless all checks of an answer were allowed. The decisions
// are the first column of the first field; a single entry stands for all.
func allAllowed(answer []byte) error {
	for range 2 {
		field, _, n := protowire.ConsumeTag(answer)
		if n < 0 || field != 1 {
			return fmt.Errorf("the answer has no decisions: %.40x", answer)
		}
		if answer, n = protowire.ConsumeBytes(answer[n:]); n < 0 {
			return protowire.ParseError(n)
		}
	}
	if !bytes.Equal(answer, []byte{1}) {
		return fmt.Errorf("not all are allowed: %.40x", answer)
	}
	return nil
}

// raw is a codec of messages that are already encoded.
type raw struct{}

// Name returns the codec's name for the server.
func (raw) Name() string { return "proto" }

// Marshal returns the bytes themselves.
func (raw) Marshal(v any) ([]byte, error) { return v.([]byte), nil } //nolint:forcetypeassert // askLeased sends nothing else

// Unmarshal keeps a copy of the bytes.
func (raw) Unmarshal(data []byte, v any) error {
	to := v.(*[]byte) //nolint:forcetypeassert // askLeased reads nothing else
	*to = bytes.Clone(data)
	return nil
}

// leasedLimit returns a limit that the load does not reach.
func leasedLimit() *stintv1.Limit {
	return &stintv1.Limit{Limit: 1_000_000, WindowUs: time.Second.Microseconds()}
}
