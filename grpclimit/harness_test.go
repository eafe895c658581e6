package grpclimit

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/test/bufconn"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

const unaryMethod = "/grpc.testing.TestService/UnaryCall"

var testNow = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// fixed returns a limiter whose clock is fixed at testNow. It allows two a minute by
// default.
func fixed(t testing.TB, specs ...stint.Spec) *stint.Limiter {
	t.Helper()
	return limiter(t, func() time.Time { return testNow }, specs...)
}

func limiter(t testing.TB, clock func() time.Time, specs ...stint.Spec) *stint.Limiter {
	t.Helper()
	if len(specs) == 0 {
		specs = []stint.Spec{{Limit: 2, Window: time.Minute}}
	}
	var limits []stint.Limit
	for _, s := range specs {
		l, err := s.Compile()
		if err != nil {
			t.Fatal(err)
		}
		limits = append(limits, l)
	}
	return over(t, stint.NewMemory(stint.MemoryOptions{Clock: clock}), limits...)
}

// over is a limiter, named orders.
func over(t testing.TB, store stint.Store, limits ...stint.Limit) *stint.Limiter {
	t.Helper()
	limiter, err := stint.NewLimiter(store, "orders", limits...)
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

// service answers every call, and reports each one.
type service struct {
	pb.UnimplementedTestServiceServer

	served chan string // if not nil, receives each call and message
	goesOn bool        // keeps reading after a denial
}

func (s *service) tell(what string) {
	if s.served != nil {
		s.served <- what
	}
}

func (s *service) UnaryCall(_ context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	s.tell("call")
	return &pb.SimpleResponse{Payload: r.GetPayload()}, nil
}

func (s *service) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, stream grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]) error {
	s.tell("output")
	return stream.Send(&pb.StreamingOutputCallResponse{})
}

func (s *service) FullDuplexCall(stream grpc.BidiStreamingServer[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]) error {
	s.tell("open")
	for {
		_, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && s.goesOn {
			_, err = stream.Recv()
		}
		if err != nil {
			return err
		}
		s.tell("message")
		if err := stream.Send(&pb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

// serve starts a server on the loopback interface.
func serve(t testing.TB, s *service, opts []grpc.ServerOption, dial ...grpc.DialOption) pb.TestServiceClient {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, l, l.Addr().String(), s, opts, dial...)
}

// serveInMemory starts a server whose clients have no address.
func serveInMemory(t testing.TB, s *service, opts []grpc.ServerOption) pb.TestServiceClient {
	t.Helper()
	l := bufconn.Listen(1 << 16)
	return serveOn(t, l, "passthrough:memory", s, opts,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
}

func serveOn(t testing.TB, l net.Listener, target string, s *service, opts []grpc.ServerOption, dial ...grpc.DialOption) pb.TestServiceClient {
	t.Helper()
	server := grpc.NewServer(opts...)
	pb.RegisterTestServiceServer(server, s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	conn, err := grpc.NewClient(target, append(dial, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		// A test that makes no call can stop the server before it begins to serve.
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return pb.NewTestServiceClient(conn)
}

// answers gives every call the same answer.
type answers struct {
	answer httplimit.Answer
	err    error
}

func (a answers) Decide(context.Context, *Call) (httplimit.Answer, error) { return a.answer, a.err }

func pass() httplimit.Answer {
	return httplimit.Answer{Decision: stint.Decision{Allowed: true}, Binding: -1}
}

// open opens a stream and reads its outcome.
func open(ctx context.Context, t *testing.T, client pb.TestServiceClient) grpc.BidiStreamingClient[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse] {
	t.Helper()
	stream, err := client.FullDuplexCall(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// echo sends a message on a stream and waits for its answer.
func echo(stream grpc.BidiStreamingClient[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]) error {
	if err := stream.Send(&pb.StreamingOutputCallRequest{}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	_, err := stream.Recv()
	return err
}
