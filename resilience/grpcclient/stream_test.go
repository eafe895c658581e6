package grpcclient

import (
	"context"
	"errors"
	"io"
	"runtime"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/bulkhead"
	"github.com/stintdev/stint/resilience/client"
)

// A stream holds its place until it ends: it was read to its end, or its caller left.
func TestStreamsHoldTheirPlace(t *testing.T) {
	places, b := must(bulkhead.New(bulkhead.Options{Limit: 1})), must(breaker.New(breaker.Options{}))
	rpc, _ := dial(t, Options{Chain: client.Chain{Bulkhead: places, Breaker: b}}, ok)
	stream := must(rpc.FullDuplexCall(t.Context()))
	_ = stream.Send(&pb.StreamingOutputCallRequest{})
	must(stream.Recv())
	if u := places.Usage(); u.InUse != 1 || b.Counts().Calls != 1 {
		t.Errorf("%+v, %+v", u, b.Counts())
	}
	_ = stream.CloseSend()
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) || places.Usage().InUse != 0 {
		t.Errorf("%v, %+v", err, places.Usage())
	}
	one := must(rpc.StreamingInputCall(t.Context()))
	must(one.CloseAndRecv())
	if u := places.Usage(); u.InUse != 0 {
		t.Errorf("a stream with one answer: %+v", u)
	}
	ctx, leave := context.WithCancel(t.Context())
	must(rpc.FullDuplexCall(ctx))
	leave()
	free(t, places)
	if c := b.Counts(); c != (breaker.Counts{Calls: 2}) {
		t.Errorf("%+v", c)
	}
}

// free waits until no place is held.
func free(t *testing.T, places *bulkhead.Bulkhead) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); places.Usage().InUse > 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("a place is still held")
		}
	}
}

// Every way in which a stream can end for gRPC ends it here too, exactly once.
func TestStreamsEndInEveryWay(t *testing.T) {
	const tooLong = 10
	for name, c := range map[string]struct {
		end  func(t *testing.T, conn *grpc.ClientConn, s pb.TestService_FullDuplexCallClient, leave func())
		want string
	}{
		"context": {func(_ *testing.T, _ *grpc.ClientConn, _ pb.TestService_FullDuplexCallClient, leave func()) { leave() }, "canceled"},
		"connection": {func(_ *testing.T, conn *grpc.ClientConn, _ pb.TestService_FullDuplexCallClient, _ func()) {
			conn.Close()
		}, "canceled"},
		"send": {func(t *testing.T, _ *grpc.ClientConn, s pb.TestService_FullDuplexCallClient, _ func()) {
			if s.Send(&pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: make([]byte, tooLong)}}) == nil {
				t.Error("it was sent")
			}
		}, "RESOURCE_EXHAUSTED"},
		"header": {func(_ *testing.T, _ *grpc.ClientConn, s pb.TestService_FullDuplexCallClient, _ func()) {
			_ = s.CloseSend()
			_, _ = s.Header()
		}, "UNAVAILABLE"},
		"read": {func(_ *testing.T, _ *grpc.ClientConn, s pb.TestService_FullDuplexCallClient, _ func()) {
			_ = s.CloseSend()
			_, _ = s.Recv()
		}, "UNAVAILABLE"},
	} {
		t.Run(name, func(t *testing.T) {
			places, seen := must(bulkhead.New(bulkhead.Options{Limit: 1})), &log{}
			conn, _ := connect(t, Options{Chain: client.Chain{Bulkhead: places, Observer: seen}}, failing(9, errBusy), grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(tooLong)))
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			stream := must(pb.NewTestServiceClient(conn).FullDuplexCall(ctx))
			c.end(t, conn, stream, leave)
			free(t, places)
			_, _ = stream.Recv()
			if want := " attempt=" + c.want + " request=" + c.want; seen.kinds() != want {
				t.Errorf("got%s, want%s", seen.kinds(), want)
			}
		})
	}
}

// A panic before there is a stream loses no place and no probe.
func TestPanicsLoseNothing(t *testing.T) {
	places, b := must(bulkhead.New(bulkhead.Options{Limit: 1})), must(breaker.New(breaker.Options{ConsecutiveFailures: 1}))
	conn, _ := connect(t, Options{Chain: client.Chain{Bulkhead: places, Breaker: b}}, ok, grpc.WithChainStreamInterceptor(
		func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, grpc.Streamer, ...grpc.CallOption) (grpc.ClientStream, error) {
			panic("below")
		}), grpc.WithChainUnaryInterceptor(
		func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
			panic("below")
		}))
	rpc := pb.NewTestServiceClient(conn)
	for name, call := range map[string]func(){
		"stream": func() { _, _ = rpc.FullDuplexCall(t.Context()) },
		"unary":  func() { _, _ = rpc.UnaryCall(t.Context(), &pb.SimpleRequest{}) },
	} {
		if !panics(call) {
			t.Errorf("%s: nothing panicked", name)
		}
		if places.Usage().InUse != 0 || b.State() != breaker.Open {
			t.Errorf("%s: %+v, %v", name, places.Usage(), b.State())
		}
		b.Reset()
	}
}

// A panic in Outcome frees the probe.
func TestPanicOfOutcomeLosesNothing(t *testing.T) {
	var now time.Duration
	b := must(breaker.New(breaker.Options{ConsecutiveFailures: 1, OpenFor: time.Hour, Clock: func() time.Time { return time.Unix(0, int64(now)) }}))
	rpc, _ := dial(t, Options{Chain: client.Chain{Breaker: b}, Outcome: func(codes.Code) breaker.Outcome { panic("outcome") }}, ok)
	c, _ := b.Begin()
	c.Failure()
	now += time.Hour
	if !panics(func() { _, _ = rpc.UnaryCall(t.Context(), &pb.SimpleRequest{}) }) {
		t.Error("nothing panicked")
	}
	if _, ok := b.Begin(); b.State() != breaker.HalfOpen || !ok {
		t.Errorf("the probe is lost: %v", b.State())
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}
