package grpcapi

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
)

// idle answers health checks, the baseline: a call that does nothing.
type idle struct {
	healthpb.UnimplementedHealthServer
}

func (idle) Check(context.Context, *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	return new(healthpb.HealthCheckResponse), nil
}

const (
	benchConns   = 8
	benchCallers = 64
)

// callers makes b.N calls from many goroutines on several connections, and reports
// checks a second. Each call has the given number of checks.
func callers(b *testing.B, r *running, checks int, call func(c grpc.ClientConnInterface, i int) error) {
	b.Helper()
	conns := make([]*grpc.ClientConn, benchConns)
	for i := range conns {
		conns[i] = dial(b, r.addr)
	}
	b.ReportAllocs()
	b.ResetTimer()
	var next atomic.Int64
	var wg sync.WaitGroup
	for i := range benchCallers {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				if err := call(conns[i%benchConns], int(n)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N*checks)/b.Elapsed().Seconds(), "checks/s")
}

func benchServer(b *testing.B) *running {
	b.Helper()
	r := runOver(b, stint.NewMemory(stint.MemoryOptions{ProcessorClock: true}), Options{Private: true})
	return r
}

// BenchmarkUnary compares a call that does nothing with a check and a take.
func BenchmarkUnary(b *testing.B) {
	r := runOver(b, stint.NewMemory(stint.MemoryOptions{ProcessorClock: true}), Options{})
	for _, c := range []struct {
		name string
		call func(c grpc.ClientConnInterface, i int) error
	}{
		{"take", func(c grpc.ClientConnInterface, i int) error {
			_, err := stintv1.NewLimiterServiceClient(c).Take(b.Context(), &stintv1.TakeRequest{Key: keys[i%len(keys)], Limits: []*stintv1.Limit{perMinute(1_000_000)}})
			return err
		}},
		{"check", func(c grpc.ClientConnInterface, i int) error {
			_, err := stintv1.NewLimiterServiceClient(c).Check(b.Context(), &stintv1.CheckRequest{Attributes: map[string]string{"api_key": keys[i%len(keys)], "path": "/orders"}})
			return err
		}},
	} {
		b.Run(c.name, func(b *testing.B) { callers(b, r, 1, c.call) })
	}
	b.Run("nothing", func(b *testing.B) { benchNothing(b) })
}

func benchNothing(b *testing.B) {
	r := &running{server: grpc.NewServer()}
	healthpb.RegisterHealthServer(r.server, idle{})
	listen(b, r)
	callers(b, r, 1, func(c grpc.ClientConnInterface, _ int) error {
		_, err := healthpb.NewHealthClient(c).Check(b.Context(), &healthpb.HealthCheckRequest{})
		return err
	})
}

var keys = func() (keys [10_000]string) {
	for i := range keys {
		keys[i] = fmt.Sprintf("user:%08d", i)
	}
	return keys
}()

// BenchmarkBatch sends 100 checks in one call.
func BenchmarkBatch(b *testing.B) {
	r := benchServer(b)
	const size = 100
	limits := []*stintv1.Limit{perMinute(1_000_000)}
	b.Run("take", func(b *testing.B) {
		callers(b, r, size, func(c grpc.ClientConnInterface, i int) error {
			from := i * size % len(keys)
			_, err := stintv1.NewLimiterServiceClient(c).TakeBatch(b.Context(), &stintv1.TakeBatchRequest{Limits: limits, Keys: keys[from : from+size]})
			return err
		})
	})
	b.Run("check", func(b *testing.B) {
		tables := make([][]string, len(keys)/size)
		for i := range tables {
			for _, key := range keys[i*size : (i+1)*size] {
				tables[i] = append(tables[i], key, "/orders")
			}
		}
		names := []string{"api_key", "path"}
		callers(b, r, size, func(c grpc.ClientConnInterface, i int) error {
			_, err := stintv1.NewLimiterServiceClient(c).CheckBatch(b.Context(), &stintv1.CheckBatchRequest{Names: names, Values: tables[i%len(tables)]})
			return err
		})
	})
}

// BenchmarkStream keeps 64 checks unanswered on each of 8 streams.
func BenchmarkStream(b *testing.B) {
	r := benchServer(b)
	b.Run("take", func(b *testing.B) {
		benchStream(b, r, func(i int) *stintv1.StreamRequest {
			return &stintv1.StreamRequest{Request: &stintv1.StreamRequest_Take{Take: &stintv1.TakeRequest{Key: keys[i%len(keys)], Limits: []*stintv1.Limit{perMinute(1_000_000)}}}}
		})
	})
	b.Run("check", func(b *testing.B) {
		benchStream(b, r, func(i int) *stintv1.StreamRequest {
			return &stintv1.StreamRequest{Request: &stintv1.StreamRequest_Check{Check: &stintv1.CheckRequest{Attributes: map[string]string{"api_key": keys[i%len(keys)], "path": "/orders"}}}}
		})
	})
}

func benchStream(b *testing.B, r *running, request func(i int) *stintv1.StreamRequest) {
	b.ReportAllocs()
	var wg sync.WaitGroup
	for i := range benchConns {
		n := b.N / benchConns
		if i < b.N%benchConns {
			n++
		}
		stream, err := stintv1.NewLimiterServiceClient(dial(b, r.addr)).Stream(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		room := make(chan struct{}, 64)
		wg.Go(func() {
			for i := range n {
				room <- struct{}{}
				if err := stream.Send(request(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
		wg.Go(func() {
			for answered := 0; answered < n; {
				m, err := stream.Recv()
				if err != nil {
					b.Error(err)
					return
				}
				for range m.GetAnswers() {
					<-room
					answered++
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "checks/s")
}
