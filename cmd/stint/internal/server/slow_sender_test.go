package server

import (
	"context"
	"errors"
	"io"
	"net"
	"path"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	stintv1 "github.com/stintdev/stint/api/stint/v1"
)

// TestAHalfMessageOfALivelyClientEndsItsCall stops in the middle of a message,
// and goes on answering pings.
func TestAHalfMessageOfALivelyClientEndsItsCall(t *testing.T) {
	t.Parallel()
	for _, method := range []string{
		ratelimitpb.RateLimitService_ShouldRateLimit_FullMethodName, healthpb.Health_Watch_FullMethodName, stintv1.LimiterService_Stream_FullMethodName,
	} {
		t.Run(path.Base(method), func(t *testing.T) {
			t.Parallel()
			s := run(t, Config{GRPC: "127.0.0.1:0", BodyTimeout: soon, IdleTimeout: 2 * soon})
			conn := dial(t, s.Addr("grpc"))
			sent := http2Preface() + http2CallOf(method)
			if _, err := io.WriteString(conn, sent[:len(sent)-5]); err != nil {
				t.Fatal(err)
			}
			if got := statusOfACall(t, conn); got != codes.DeadlineExceeded {
				t.Error(got)
			}
		})
	}
}

// statusOfACall waits for the end of the one call on a connection.
func statusOfACall(t *testing.T, conn net.Conn) codes.Code {
	t.Helper()
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch f := frame.(type) {
		case *http2.PingFrame:
			if !f.IsAck() {
				_ = framer.WritePing(true, f.Data) // a read fails when this does
			}
		case *http2.MetaHeadersFrame:
			for _, field := range f.Fields {
				if field.Name == "grpc-status" {
					code, err := strconv.Atoi(field.Value)
					if err != nil {
						t.Fatal(err)
					}
					return codes.Code(code)
				}
			}
		}
	}
}

// TestAStreamMayBeSilentForAWhile asks a second time long after the first, and
// no third time.
func TestAStreamMayBeSilentForAWhile(t *testing.T) {
	t.Parallel()
	s := run(t, Config{GRPC: "127.0.0.1:0", BodyTimeout: 4 * lookEvery, IdleTimeout: 20 * lookEvery})
	stream, err := stintv1.NewLimiterServiceClient(dialGRPC(t, s)).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		<-time.After(6 * lookEvery)
		if err := stream.Send(&stintv1.StreamRequest{}); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := stream.Recv(); status.Code(err) != codes.DeadlineExceeded {
		t.Error(err)
	}
}

// TestAWatchedStreamIsAwaitedForItsRequestAlone watches health for longer than
// a message may take.
func TestAWatchedStreamIsAwaitedForItsRequestAlone(t *testing.T) {
	t.Parallel()
	s := run(t, Config{GRPC: "127.0.0.1:0", BodyTimeout: 2 * lookEvery, IdleTimeout: 2 * lookEvery})
	watch, err := healthpb.NewHealthClient(dialGRPC(t, s)).Watch(patient(t), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	wantHealth(t, watch, healthpb.HealthCheckResponse_SERVING)
	<-time.After(6 * lookEvery)
	s.stop()
	wantHealth(t, watch, healthpb.HealthCheckResponse_NOT_SERVING)
}

// endlessStream brings a message whenever it is asked.
type endlessStream struct {
	grpc.ServerStream

	ctx  context.Context //nolint:containedctx // as the one of grpc-go has
	asks func()
}

func (e *endlessStream) Context() context.Context { return e.ctx }
func (e *endlessStream) RecvMsg(any) error        { e.asks(); return nil }

// TestAMessageThatCameTooLateIsNotHandedOver lets one come as its call is cut.
func TestAMessageThatCameTooLateIsNotHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnfinished(time.Second, time.Minute)
		ctx, _ := u.begin(t.Context(), nil) // which never fails
		slow := func() { <-ctx.Done() }
		stream := &endlessStream{ctx: ctx, asks: func() {}}
		err := u.stream(nil, stream, &grpc.StreamServerInfo{IsClientStream: true}, func(_ any, s grpc.ServerStream) error {
			for range 3 {
				if err := s.RecvMsg(nil); err != nil {
					t.Error(err)
				}
				<-time.After(2 * time.Minute) // busy; nothing is awaited
			}
			stream.asks = slow
			return s.RecvMsg(nil)
		})
		if status.Code(err) != codes.DeadlineExceeded || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("%v, %v", err, ctx.Err())
		}
	})
}

func TestCallsAreAwaitedForAWhile(t *testing.T) {
	const within = time.Second
	begin := func(u *unfinished, ctx context.Context) context.Context {
		ctx, _ = u.begin(ctx, nil) // which never fails
		return ctx
	}
	receive := func(u *unfinished, ctx context.Context) error {
		_, err := u.unary(ctx, "", nil, func(_ context.Context, request any) (any, error) { return request, nil })
		return err
	}
	state := func(u *unfinished) (calls int, armed bool) {
		synctest.Wait()
		u.mu.Lock()
		defer u.mu.Unlock()
		return len(u.calls), u.armed
	}
	synctest.Test(t, func(t *testing.T) {
		u := newUnfinished(within, time.Minute)
		left, leave := context.WithCancel(t.Context())
		hurried, cancel := context.WithTimeout(t.Context(), within/2)
		defer cancel()
		whole, half, gone := begin(u, t.Context()), begin(u, t.Context()), begin(u, left)
		if got := begin(u, hurried); got != hurried {
			t.Error("a call with a deadline of its own is looked after")
		}
		if err := receive(u, whole); err != nil {
			t.Error(err)
		}
		leave()
		<-time.After(2 * lookEvery)
		if calls, _ := state(u); calls != 1 || !errors.Is(gone.Err(), context.Canceled) {
			t.Errorf("%d calls, %v", calls, gone.Err())
		}
		<-time.After(within - 3*lookEvery)
		if err := half.Err(); err != nil {
			t.Errorf("%v before its time", err)
		}
		<-half.Done()
		if err := half.Err(); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := receive(u, half); err == nil {
			t.Error("received too late")
		}
		if calls, armed := state(u); whole.Err() != nil || calls != 0 || armed {
			t.Errorf("%v, %d calls, armed %v", whole.Err(), calls, armed)
		}
		begin(u, t.Context())
		if calls, armed := state(u); calls != 1 || !armed {
			t.Errorf("%d calls, armed %v", calls, armed)
		}
	})
}
