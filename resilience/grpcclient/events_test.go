package grpcclient

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/client"
	"github.com/stintdev/stint/resilience/retry"
)

// numbered returns the kinds and attempts of the events. It checks that the durations of
// attempts and requests are above 0.
func (l *log) numbered(t *testing.T) (all []int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		all = append(all, e.Attempt)
		if timed := e.Kind == stint.EventAttempt || e.Kind == stint.EventRequest; timed && e.Took <= 0 {
			t.Errorf("%v took %v", e.Kind, e.Took)
		}
	}
	return all
}

func TestEventsAreNumbered(t *testing.T) {
	seen := &log{}
	rpc, _ := dial(t, Options{Chain: client.Chain{Observer: seen}, Retry: &retry.Options{Base: time.Microsecond}}, failing(2, errBusy))
	if _, err := rpc.UnaryCall(withKey(t.Context()), &pb.SimpleRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := seen.numbered(t); !slices.Equal(got, []int{1, 1, 2, 2}) {
		t.Errorf("of a call: %v", got)
	}
	seen.events = nil
	stream := must(rpc.FullDuplexCall(t.Context()))
	_ = stream.CloseSend()
	_, _ = stream.Recv()
	if got := seen.numbered(t); !slices.Equal(got, []int{1, 1}) {
		t.Errorf("of a stream: %v", got)
	}
}

func TestRefusalsNameTheirPart(t *testing.T) {
	seen := &log{}
	rpc, _ := dial(t, Options{Chain: client.Chain{Limiter: limiter{context.DeadlineExceeded}, Observer: seen}}, ok)
	_, _ = rpc.UnaryCall(t.Context(), &pb.SimpleRequest{})
	if e := seen.events[0]; e.Kind != stint.EventRefusal || e.Result != client.PartLimiter.String() || e.Attempt != 1 {
		t.Errorf("got %+v", e)
	}
}

// turns is a limiter that records the keys of its turns.
type turns []string

func (s *turns) Wait(_ context.Context, key string) error { *s = append(*s, key); return nil }

func TestTheLimiterIsAskedForTheTarget(t *testing.T) {
	asked := &turns{}
	rpc, _ := dial(t, Options{Chain: client.Chain{Limiter: asked}}, ok)
	_, _ = rpc.UnaryCall(t.Context(), &pb.SimpleRequest{})
	must(rpc.FullDuplexCall(t.Context()))
	if want := []string{"passthrough:orders", "passthrough:orders"}; !slices.Equal(*asked, want) {
		t.Errorf("asked for %q", *asked)
	}
}

// By default, a call is repeatable if it has a key that is not empty; the option gets the
// method.
func TestRepeatableNeedsAnIdempotencyKey(t *testing.T) {
	if repeatable(metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", ""), "") {
		t.Error("a call with an empty key is repeatable")
	}
	var asked string
	rpc, s := dial(t, Options{Retry: &retry.Options{Base: time.Microsecond}, Repeatable: func(_ context.Context, method string) bool { asked = method; return true }}, failing(2, errBusy))
	if _, err := rpc.UnaryCall(t.Context(), &pb.SimpleRequest{}); err != nil || s.calls.Load() != 2 || asked != "/grpc.testing.TestService/UnaryCall" {
		t.Errorf("%v after %d calls, asked for %q", err, s.calls.Load(), asked)
	}
}

// The call options that a caller shares among calls are not modified.
func TestOptionsOfCallsAreNotWrittenTo(t *testing.T) {
	conn, _ := connect(t, Options{}, ok)
	rpc := must(New(Options{}))
	shared := append(make([]grpc.CallOption, 0, 2), grpc.WaitForReady(true))
	invoke := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }
	open := func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
		return nil, nil //nolint:nilnil // the result is not used
	}
	_ = rpc.Unary(t.Context(), "/s/m", nil, nil, conn, invoke, shared...)
	_, _ = rpc.Stream(t.Context(), &grpc.StreamDesc{}, conn, "/s/m", open, shared...)
	if shared[:2][1] != nil {
		t.Errorf("added %T", shared[:2][1])
	}
}

func TestFailureCodes(t *testing.T) {
	var failures []codes.Code
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		if OutcomeOf(c) == breaker.Failure {
			failures = append(failures, c)
		}
	}
	if want := []codes.Code{codes.Unknown, codes.DeadlineExceeded, codes.Internal, codes.Unavailable, codes.DataLoss}; !slices.Equal(failures, want) {
		t.Errorf("got %v, want %v", failures, want)
	}
}

// The context of a call is canceled when the call ends.
func TestTimeoutEndsWithTheCall(t *testing.T) {
	conn, _ := connect(t, Options{}, ok)
	var over func() error
	invoke := func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
		if _, bound := ctx.Deadline(); !bound {
			t.Error("it has no end")
		}
		over = ctx.Err
		return ctx.Err()
	}
	if err := must(New(Options{Timeout: time.Hour})).Unary(t.Context(), "/s/m", nil, nil, conn, invoke); err != nil || over() == nil {
		t.Errorf("%v, then %v", err, over())
	}
}
