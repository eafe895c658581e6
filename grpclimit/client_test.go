package grpclimit

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
)

func TestCallsAreRefusedBeforeTheyAreSent(t *testing.T) {
	served := make(chan string, 10)
	c := sending(t, fixed(t), ClientOptions{Refuse: true})
	client := serve(t, &service{served: served}, nil, c.Options()...)
	for range 2 {
		if _, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{})
	retry, quota := details(err)
	if status.Code(err) != codes.ResourceExhausted || retry.GetRetryDelay().AsDuration() != 30*time.Second || len(quota.GetViolations()) != 1 {
		t.Errorf("%v, %v, %v", err, retry, quota)
	}
	if _, err := client.FullDuplexCall(t.Context()); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a stream: %v", err)
	}
	if len(served) != 2 {
		t.Errorf("the server saw %d calls; want 2", len(served))
	}
}

func TestOneMessageToTheServerIsTheCallItself(t *testing.T) {
	c := sending(t, fixed(t), ClientOptions{Refuse: true, Messages: true})
	client := serve(t, &service{}, nil, c.Options()...)
	for n, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted} {
		stream, err := client.StreamingOutputCall(t.Context(), &pb.StreamingOutputCallRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != want {
			t.Errorf("call %d: %v; want %v", n, err, want)
		}
	}
}

func TestRefusedMessagesAreNotSent(t *testing.T) {
	served := make(chan string, 10)
	c := sending(t, fixed(t), ClientOptions{Refuse: true, Messages: true, Cost: func(_ context.Context, _ string, message any) int64 {
		if message == nil {
			return 0 // streams are not counted
		}
		return 1
	}})
	stream := open(t.Context(), t, serve(t, &service{served: served}, nil, c.Options()...))
	for range 2 {
		if err := echo(stream); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Send(&pb.StreamingOutputCallRequest{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the third message: %v", err)
	}
	_ = stream.CloseSend()
	if _, err := stream.Recv(); err == nil || status.Code(err) == codes.ResourceExhausted {
		t.Errorf("the stream itself: %v; want its ordinary end", err)
	}
	if len(served) != 3 {
		t.Errorf("the server saw %d; want one stream of two messages", len(served))
	}
}

// freeStreams is a client that counts messages but not streams.
func freeStreams(t *testing.T) *Client {
	t.Helper()
	return sending(t, fixed(t), ClientOptions{Messages: true, Cost: func(_ context.Context, _ string, message any) int64 {
		if message == nil {
			return 0
		}
		return 1
	}})
}

// gRPC retries a stream with counted messages as it retries any other.
func TestCountedStreamsAreRetried(t *testing.T) {
	var attempts atomic.Int64
	once := func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if attempts.Add(1) == 1 {
			return status.Error(codes.Unavailable, "not yet")
		}
		return next(srv, stream)
	}
	policy := `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 2, "initialBackoff": "0.01s", "maxBackoff": "0.01s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`
	client := serve(t, &service{}, []grpc.ServerOption{grpc.StreamInterceptor(once)}, append(freeStreams(t).Options(), grpc.WithDefaultServiceConfig(policy))...)
	if err := echo(open(t.Context(), t, client)); err != nil || attempts.Load() != 2 {
		t.Errorf("%v after %d attempts", err, attempts.Load())
	}
}

// A message does not wait on a stream that has ended.
func TestTheEndOfAStreamEndsTheWait(t *testing.T) {
	c := freeStreams(t)
	stream := open(t.Context(), t, serve(t, &service{}, mustLimit(t, fixed(t), Options{Messages: true}).Options(), c.Options()...))
	if err := echo(stream); err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&pb.StreamingOutputCallRequest{}); err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() { sent <- stream.Send(&pb.StreamingOutputCallRequest{}) }() // the message may be sent after half a minute
	if _, err := stream.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Fatal(err)
	}
	select {
	case err := <-sent:
		if !errors.Is(err, io.EOF) {
			t.Errorf("%v; want what streams say of their end", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("it still waits")
	}
}

// answered is a stream whose answer has arrived.
type answered struct{ grpc.ClientStream }

func (answered) RecvMsg(any) error { return nil }

// A stream releases what it holds of a longer-lived context when it ends, by an error
// or by its only answer.
func TestStreamsThatEndLetGoOfTheirContext(t *testing.T) {
	conn, err := grpc.NewClient("passthrough:nowhere", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for many, ended := range map[bool]error{true: nil, false: context.Canceled} {
		desc := &grpc.StreamDesc{ClientStreams: true, ServerStreams: many}
		stream, err := freeStreams(t).Stream(t.Context(), desc, conn, "/s/m", func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
			return answered{}, nil
		})
		if err != nil || stream.RecvMsg(nil) != nil {
			t.Fatal(err)
		}
		if paced, ok := stream.(*pacedStream); !ok || !errors.Is(paced.waits.Err(), ended) {
			t.Errorf("many answers %v: %T", many, stream)
		}
	}
}

func TestKeysOfAClient(t *testing.T) {
	byMethod := func(_ context.Context, target, method string) (string, error) {
		if target == "" {
			t.Error("no target")
		}
		return method, nil
	}
	client := serve(t, &service{}, nil, sending(t, fixed(t), ClientOptions{Refuse: true, Key: byMethod}).Options()...)
	for n, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted} {
		if _, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}); status.Code(err) != want {
			t.Errorf("call %d: %v; want %v", n, err, want)
		}
	}
	if stream := open(t.Context(), t, client); echo(stream) != nil {
		t.Error("another method has a count of its own")
	}
}

// caller calls a client's interceptor as grpc-go does, without a server. A real
// connection would not run in the time of a synctest bubble.
func caller(t *testing.T, c *Client) func(ctx context.Context) (time.Duration, error) {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:nowhere", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	invoker := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }
	return func(ctx context.Context) (time.Duration, error) {
		start := time.Now()
		err := c.Unary(ctx, unaryMethod, nil, nil, conn, invoker)
		return time.Since(start), err
	}
}

func TestCallsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now
		for name, spec := range map[string]stint.Spec{
			"bucket": {Limit: 1, Window: time.Second},
			"leaky":  {Algorithm: stint.LeakyBucket, Limit: 1, Window: time.Second, Queue: 3},
		} {
			call := caller(t, sending(t, limiter(t, now, spec), ClientOptions{}))
			for n, want := range []time.Duration{0, time.Second, time.Second} {
				if took, err := call(t.Context()); took != want || err != nil {
					t.Errorf("%s: call %d took %v, %v; want %v", name, n, took, err, want)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			if took, err := call(ctx); took != 0 || status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("%s: with a deadline before its turn: %v, %v; want no wait", name, took, err)
			}
			cancel()
			if took, err := call(ctx); took != 0 || status.Code(err) != codes.DeadlineExceeded && status.Code(err) != codes.Canceled {
				t.Errorf("%s: after its end: %v, %v", name, took, err)
			}
		}
	})
}

func TestLeakyBucketDelaysWhatIsNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now
		call := caller(t, sending(t, limiter(t, now, stint.Spec{Algorithm: stint.LeakyBucket, Limit: 1, Window: time.Second, Queue: 3}), ClientOptions{Refuse: true}))
		for n, want := range []time.Duration{0, time.Second} {
			if took, err := call(t.Context()); took != want || err != nil {
				t.Errorf("call %d took %v, %v; want %v", n, took, err, want)
			}
		}
	})
}

func TestCostThatNeverFitsIsNotWaitedFor(t *testing.T) {
	c := sending(t, fixed(t), ClientOptions{Cost: func(context.Context, string, any) int64 { return 3 }})
	if _, err := caller(t, c)(t.Context()); status.Code(err) != codes.InvalidArgument {
		t.Errorf("%v; want INVALID_ARGUMENT", err)
	}
}

// broken is a store that cannot be reached.
type broken struct{ err error }

func (b broken) Take(context.Context, stint.Claim) (stint.Decision, error) {
	return stint.Decision{}, b.err
}
func (b broken) TakeGroups(context.Context, []stint.Group, []stint.Decision) error { return b.err }

func TestClientWithoutAStore(t *testing.T) {
	limit, err := stint.PerMinute(1).Compile()
	if err != nil {
		t.Fatal(err)
	}
	slow := over(t, broken{&stint.Error{Code: stint.CodeTimeout, Kind: "timeout", Problem: "slow", Err: context.DeadlineExceeded}}, limit)
	limiter := over(t, broken{&stint.Error{Code: stint.CodeUnavailable, Problem: "down"}}, limit)
	for _, refuse := range []bool{false, true} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		if _, err := caller(t, sending(t, slow, ClientOptions{Refuse: refuse}))(ctx); status.Code(err) != codes.Unavailable {
			t.Errorf("refuse %v, a slow store: %v; want UNAVAILABLE", refuse, err)
		}
		cancel()
		c := sending(t, limiter, ClientOptions{Refuse: refuse})
		if _, err := caller(t, c)(t.Context()); status.Code(err) != codes.Unavailable {
			t.Errorf("refuse %v: %v; want UNAVAILABLE", refuse, err)
		}
		var failed error
		c = sending(t, limiter, ClientOptions{Refuse: refuse, OnError: func(_ context.Context, err error) error { failed = err; return nil }})
		if _, err := caller(t, c)(t.Context()); err != nil || !errors.As(failed, new(*stint.Error)) {
			t.Errorf("refuse %v, let pass: %v, %v", refuse, err, failed)
		}
	}
}
