package grpcclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/bulkhead"
	"github.com/stintdev/stint/resilience/client"
	"github.com/stintdev/stint/resilience/retry"
	"github.com/stintdev/stint/resilience/retrybudget"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// service is a server whose answers a test sets by the number of the call.
type service struct {
	pb.UnimplementedTestServiceServer

	calls  atomic.Int64
	answer func(ctx context.Context, n int64) error
}

func (s *service) UnaryCall(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{Payload: r.GetPayload()}, s.answer(ctx, s.calls.Add(1))
}

func (s *service) FullDuplexCall(stream pb.TestService_FullDuplexCallServer) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return s.answer(stream.Context(), s.calls.Add(1))
		}
		if err := stream.Send(&pb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

func (s *service) StreamingInputCall(stream pb.TestService_StreamingInputCallServer) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return stream.SendAndClose(&pb.StreamingInputCallResponse{})
		}
	}
}

// dial connects to a server through a client's chain.
func dial(t *testing.T, o Options, answer func(ctx context.Context, n int64) error) (pb.TestServiceClient, *service) {
	t.Helper()
	conn, s := connect(t, o, answer)
	return pb.NewTestServiceClient(conn), s
}

// connect is dial, and also returns the connection.
func connect(t *testing.T, o Options, answer func(ctx context.Context, n int64) error, more ...grpc.DialOption) (*grpc.ClientConn, *service) {
	t.Helper()
	before := runtime.NumGoroutine()
	s, listener, server := &service{answer: answer}, bufconn.Listen(1<<16), grpc.NewServer()
	pb.RegisterTestServiceServer(server, s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	options := append(append(must(New(o)).Options(), more...), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return listener.Dial() }))
	conn := must(grpc.NewClient("passthrough:orders", options...))
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		// A test that makes no call can stop the server before it begins to serve.
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
		for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
			if time.Now().After(end) {
				t.Errorf("%d goroutines, and there were %d", runtime.NumGoroutine(), before)
				return
			}
		}
	})
	return conn, s
}

func ok(context.Context, int64) error { return nil }

// failing fails all calls before this one.
func failing(until int64, err error) func(context.Context, int64) error {
	return func(_ context.Context, n int64) error {
		if n < until {
			return err
		}
		return nil
	}
}

type log struct {
	mu     sync.Mutex
	events []stint.Event
}

// started is the key of the event that began in a context.
type started struct{ *log }

func (l *log) Start(ctx context.Context, e stint.Event) context.Context {
	return context.WithValue(ctx, started{l}, e.Kind)
}

// Observe checks that an event ends in the context in which it began; a refusal ends in
// that of the request.
func (l *log) Observe(ctx context.Context, e stint.Event) {
	if begun, ok := ctx.Value(started{l}).(stint.EventKind); ok == (e.Kind == stint.EventRetry) || ok && begun != e.Kind && e.Kind != stint.EventRefusal {
		panic(fmt.Sprintf("%v in the context of %v", e, begun))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

func (l *log) kinds() (all string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		all += " " + e.Kind.String() + "=" + e.Result
	}
	return all
}

var errBusy = status.Error(codes.Unavailable, "busy")

func withKey(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "idempotency-key", "a")
}

func without(ctx context.Context) context.Context { return ctx }

func TestRetriesWhatMayBeRepeated(t *testing.T) {
	for _, c := range []struct {
		name string
		with func(context.Context) context.Context
		err  error
		want codes.Code
		sent int64
	}{
		{"withAKey", withKey, errBusy, codes.OK, 3},
		{"withoutOne", without, errBusy, codes.Unavailable, 1},
		{"otherCodes", withKey, status.Error(codes.InvalidArgument, "bad"), codes.InvalidArgument, 1},
		{"overTheLimit", withKey, status.Error(codes.ResourceExhausted, "limit"), codes.OK, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			rpc, s := dial(t, Options{Retry: &retry.Options{Base: time.Millisecond}}, failing(3, c.err))
			_, err := rpc.UnaryCall(c.with(t.Context()), &pb.SimpleRequest{})
			if status.Code(err) != c.want || s.calls.Load() != c.sent {
				t.Errorf("%v after %d calls, want %v after %d", err, s.calls.Load(), c.want, c.sent)
			}
		})
	}
}

// A call is not retried before the time that the server asks for.
func TestPushbackAndRetryInfoAreHeeded(t *testing.T) {
	info := must(status.New(codes.ResourceExhausted, "limit").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(40 * time.Millisecond)}))
	for _, c := range []struct {
		name     string
		pushback []string
		err      error
		sent     int64
		least    time.Duration
	}{
		{"pushback", []string{"40"}, errBusy, 2, 40 * time.Millisecond},
		{"pushbackOverRetryInfo", []string{"0"}, info.Err(), 2, 0},
		{"retryInfo", nil, info.Err(), 2, 40 * time.Millisecond},
		{"forbidden", []string{"-1"}, errBusy, 1, 0},
		{"garbage", []string{"soon"}, errBusy, 1, 0},
		{"two", []string{"1", "2"}, errBusy, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			rpc, s := dial(t, Options{Retry: &retry.Options{Base: time.Microsecond}}, func(ctx context.Context, n int64) error {
				if n > 1 {
					return nil
				}
				for _, v := range c.pushback {
					_ = grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", v))
				}
				return c.err
			})
			start := time.Now()
			_, _ = rpc.UnaryCall(withKey(t.Context()), &pb.SimpleRequest{})
			if took := time.Since(start); s.calls.Load() != c.sent || took < c.least {
				t.Errorf("%d calls in %v, want %d in at least %v", s.calls.Load(), took, c.sent, c.least)
			}
		})
	}
}

func TestBudgetKeepsTheError(t *testing.T) {
	none := must(retrybudget.New(retrybudget.Options{PerSecond: retrybudget.NoShare}))
	rpc, s := dial(t, Options{Retry: &retry.Options{Budget: none}}, failing(9, errBusy))
	_, err := rpc.UnaryCall(withKey(t.Context()), &pb.SimpleRequest{})
	if status.Convert(err).Message() != "busy" || s.calls.Load() != 1 {
		t.Errorf("%v after %d calls", err, s.calls.Load())
	}
}

// A breaker that opens between two attempts refuses the second one, and the budget is not
// charged for it.
func TestRefusalTellsWhatCameBefore(t *testing.T) {
	b, granted := must(breaker.New(breaker.Options{ConsecutiveFailures: 1})), must(retrybudget.New(retrybudget.Options{}))
	rpc, s := dial(t, Options{Chain: client.Chain{Breaker: b}, Retry: &retry.Options{Base: time.Microsecond, Budget: granted}}, failing(9, errBusy))
	_, err := rpc.UnaryCall(withKey(t.Context()), &pb.SimpleRequest{})
	var refused *client.RefusedError
	if !errors.As(err, &refused) || status.Convert(refused.Before).Message() != "busy" || s.calls.Load() != 1 {
		t.Errorf("%v after %d calls", err, s.calls.Load())
	}
	if u := granted.Usage(); u.Requests != 1 || u.Retries != 0 {
		t.Errorf("a retry that was not sent was charged to the budget: %+v", u)
	}
}

type limiter struct{ err error }

func (l limiter) Wait(context.Context, string) error { return l.err }

// A refusal has a status, and is a *client.RefusedError.
func TestRefusals(t *testing.T) {
	full := must(bulkhead.New(bulkhead.Options{Limit: 1}))
	must(full.Acquire(t.Context()))
	open := must(breaker.New(breaker.Options{}))
	open.ForceOpen()
	for _, c := range []struct {
		name  string
		parts client.Chain
		part  client.Part
		want  codes.Code
	}{
		{"bulkhead", client.Chain{Bulkhead: full}, client.PartBulkhead, codes.ResourceExhausted},
		{"breaker", client.Chain{Breaker: open}, client.PartBreaker, codes.Unavailable},
		{"limiter", client.Chain{Limiter: limiter{errors.New("limit")}}, client.PartLimiter, codes.ResourceExhausted},
		{"limiterTooLate", client.Chain{Limiter: limiter{context.DeadlineExceeded}}, client.PartLimiter, codes.DeadlineExceeded},
		{"limiterUnavailable", client.Chain{Limiter: limiter{&stint.Error{Code: stint.CodeUnavailable, Err: context.DeadlineExceeded}}}, client.PartLimiter, codes.Unavailable},
		{"limiterCanceled", client.Chain{Limiter: limiter{context.Canceled}}, client.PartLimiter, codes.Canceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := &log{}
			c.parts.Name, c.parts.Observer = "orders", seen
			earned := must(retrybudget.New(retrybudget.Options{}))
			rpc, s := dial(t, Options{Chain: c.parts, Retry: &retry.Options{Budget: earned}}, ok)
			_, err := rpc.UnaryCall(withKey(t.Context()), &pb.SimpleRequest{})
			_, streamErr := rpc.FullDuplexCall(t.Context())
			for _, err := range []error{err, streamErr} {
				var refused *client.RefusedError
				if !errors.As(err, &refused) || refused.Part != c.part || status.Code(err) != c.want || !strings.Contains(err.Error(), "orders: not sent") {
					t.Errorf("got %v", err)
				}
			}
			if u := earned.Usage(); u.Requests != 0 {
				t.Errorf("a call that was not sent earned retries: %+v", u)
			}
			refusal := " refusal=" + c.part.String()
			if want := refusal + " retry=not_to_be_repeated request=refused" + refusal + " request=refused"; s.calls.Load() != 0 || seen.kinds() != want {
				t.Errorf("%d calls; got%s, want%s", s.calls.Load(), seen.kinds(), want)
			}
		})
	}
}

func TestContextOverRefusesWithItsStatus(t *testing.T) {
	places := must(bulkhead.New(bulkhead.Options{Limit: 1, Queue: 1}))
	must(places.Acquire(t.Context()))
	rpc, _ := dial(t, Options{Chain: client.Chain{Bulkhead: places}, Timeout: 10 * time.Millisecond}, ok)
	if _, err := rpc.UnaryCall(t.Context(), &pb.SimpleRequest{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v", err)
	}
}

// The breaker counts failures of the server. It does not count its other answers, or
// callers that leave.
func TestBreakerCounts(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want breaker.Counts
	}{
		{"fine", nil, breaker.Counts{Calls: 1}},
		{"notFound", status.Error(codes.NotFound, ""), breaker.Counts{Calls: 1}},
		{"overTheLimit", status.Error(codes.ResourceExhausted, ""), breaker.Counts{Calls: 1}},
		{"down", errBusy, breaker.Counts{Calls: 1, Failures: 1}},
	} {
		b := must(breaker.New(breaker.Options{}))
		rpc, _ := dial(t, Options{Chain: client.Chain{Breaker: b}}, func(context.Context, int64) error { return c.err })
		_, _ = rpc.UnaryCall(t.Context(), &pb.SimpleRequest{})
		if got := b.Counts(); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	b := must(breaker.New(breaker.Options{}))
	ctx, leave := context.WithCancel(t.Context())
	rpc, _ := dial(t, Options{Chain: client.Chain{Breaker: b}}, func(ctx context.Context, _ int64) error { leave(); <-ctx.Done(); return nil })
	_, _ = rpc.UnaryCall(ctx, &pb.SimpleRequest{})
	if got := b.Counts(); got.Calls != 0 {
		t.Errorf("a caller that left counts: %+v", got)
	}
}

func TestEvents(t *testing.T) {
	seen := &log{}
	var step retry.Step
	rpc, _ := dial(t, Options{
		Chain: client.Chain{Observer: seen},
		Retry: &retry.Options{Base: time.Microsecond, Observe: func(s retry.Step) { step = s }, Classify: func(error) retry.Classification { return retry.Classification{} }},
	}, failing(2, errBusy))
	_, _ = rpc.UnaryCall(withKey(t.Context()), &pb.SimpleRequest{})
	if status.Code(step.Err) != codes.Unavailable {
		t.Errorf("the step's error is %v", step.Err)
	}
	if got, want := seen.kinds(), " attempt=UNAVAILABLE retry=retry attempt=OK request=OK"; got != want {
		t.Errorf("got%s, want%s", got, want)
	}
}

func TestCodesHaveTheirNames(t *testing.T) {
	for code, want := range map[codes.Code]string{codes.OK: "OK", codes.ResourceExhausted: "RESOURCE_EXHAUSTED", codes.DataLoss: "DATA_LOSS", 99: "UNKNOWN"} {
		if got := codeName(code); got != want {
			t.Errorf("%d: %s, want %s", code, got, want)
		}
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	for field, o := range map[string]Options{"Timeout": {Timeout: -1}, "Attempts": {Retry: &retry.Options{Attempts: -1}}} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
