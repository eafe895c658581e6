package main

import (
	"context"
	"slices"

	ratelimitcommon "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	stintv1 "github.com/stintdev/stint/api/stint/v1"
)

// addGRPC adds the empty server and all surfaces of Stint over gRPC.
func (f *field) addGRPC(ctx context.Context, empty, ours *serverProcess, keys []string) error {
	reference, err := f.dial(empty.addrs["grpc"])
	if err != nil {
		return err
	}
	conns, err := f.dial(ours.addrs["grpc"])
	if err != nil {
		return err
	}
	streams, err := openStreams(ctx, conns)
	if err != nil {
		return err
	}
	one := surface{callers: serverCallers, checks: 1, processes: []int{ours.pid()}}
	f.add(one, emptyName, askEnvoy(ctx, reference, keys)).processes = []int{empty.pid()}
	f.add(one, envoyName, askEnvoy(ctx, conns, keys))
	f.add(one, unaryName, askTake(ctx, conns, keys))
	f.add(one, streamName, askStream(streams, keys))
	f.add(one, takeBatchName, askTakeBatch(ctx, conns, keys)).checks = batchChecks
	return nil
}

// add adds a copy of a surface with another name and function, and returns it.
func (f *field) add(like surface, name string, ask func(caller int) bool) *surface {
	like.name, like.ask = name, ask
	f.surfaces = append(f.surfaces, like)
	return &f.surfaces[len(f.surfaces)-1]
}

// dial opens the connections of all callers.
func (f *field) dial(addr string) ([]*grpc.ClientConn, error) {
	conns := make([]*grpc.ClientConn, serverConnections)
	for i := range conns {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, err
		}
		conns[i] = conn
		f.closing(conn.Close)
	}
	return conns, nil
}

// walk is a caller's position in its own share of the keys.
type walk struct {
	keys []string
	next int
	_    [32]byte // padding to a cache line
}

func walks(keys []string, callers int) []walk {
	share := len(keys) / callers
	all := make([]walk, callers)
	for i := range all {
		all[i].keys = keys[i*share:][:share]
	}
	return all
}

// take returns the next n keys.
func (w *walk) take(n int) []string {
	if w.next+n > len(w.keys) {
		w.next = 0
	}
	w.next += n
	return w.keys[w.next-n : w.next]
}

// askEnvoy asks as Envoy does. Each caller reuses its request, which has been sent when
// the answer arrives.
func askEnvoy(ctx context.Context, conns []*grpc.ClientConn, keys []string) func(caller int) bool {
	requests, walks := make([]*ratelimitpb.RateLimitRequest, serverCallers), walks(keys, serverCallers)
	for i := range requests {
		entry := &ratelimitcommon.RateLimitDescriptor_Entry{Key: "user"}
		requests[i] = &ratelimitpb.RateLimitRequest{Domain: "bench", Descriptors: []*ratelimitcommon.RateLimitDescriptor{
			{Entries: []*ratelimitcommon.RateLimitDescriptor_Entry{entry}},
		}}
	}
	clients := each(conns, ratelimitpb.NewRateLimitServiceClient)
	return func(caller int) bool {
		r := requests[caller]
		r.Descriptors[0].Entries[0].Value = walks[caller].take(1)[0]
		answer, err := clients[caller%len(clients)].ShouldRateLimit(ctx, r)
		return err == nil && answer.GetOverallCode() == ratelimitpb.RateLimitResponse_OK && answer.GetStatuses()[0].GetLimitRemaining() > 0
	}
}

// each makes a client for each connection.
func each[C any](conns []*grpc.ClientConn, client func(grpc.ClientConnInterface) C) []C {
	clients := make([]C, len(conns))
	for i, conn := range conns {
		clients[i] = client(conn)
	}
	return clients
}

// benchLimit returns the limit of ample.
func benchLimit() *stintv1.Limit {
	a := ample()
	return &stintv1.Limit{Limit: 1, WindowUs: a.every.Microseconds(), Capacity: a.burst}
}

func takeRequests() []*stintv1.TakeRequest {
	requests := make([]*stintv1.TakeRequest, serverCallers)
	for i := range requests {
		requests[i] = &stintv1.TakeRequest{Limits: []*stintv1.Limit{benchLimit()}}
	}
	return requests
}

// askTake takes one key per call.
func askTake(ctx context.Context, conns []*grpc.ClientConn, keys []string) func(caller int) bool {
	requests, walks := takeRequests(), walks(keys, serverCallers)
	clients := each(conns, stintv1.NewLimiterServiceClient)
	return func(caller int) bool {
		requests[caller].Key = walks[caller].take(1)[0]
		answer, err := clients[caller%len(clients)].Take(ctx, requests[caller])
		return err == nil && answer.GetDecision().GetAllowed()
	}
}

// askTakeBatch takes many keys per call.
func askTakeBatch(ctx context.Context, conns []*grpc.ClientConn, keys []string) func(caller int) bool {
	requests, walks := make([]*stintv1.TakeBatchRequest, serverCallers), walks(keys, serverCallers)
	for i := range requests {
		requests[i] = &stintv1.TakeBatchRequest{Limits: []*stintv1.Limit{benchLimit()}}
	}
	clients := each(conns, stintv1.NewLimiterServiceClient)
	return func(caller int) bool {
		requests[caller].Keys = walks[caller].take(batchChecks)
		answer, err := clients[caller%len(clients)].TakeBatch(ctx, requests[caller])
		allowed := answer.GetDecisions().GetAllowed()
		return err == nil && len(answer.GetFailures()) == 0 && len(allowed) > 0 && !slices.Contains(allowed, false)
	}
}
