package server

import (
	"io"
	"net"
	"path"
	"strconv"
	"testing"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	stintv1 "github.com/stintdev/stint/api/stint/v1"
)

// TestAHalfMessageOfALivelyClientEndsItsCall sends half of a message, and then only answers
// pings.
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
				_ = framer.WritePing(true, f.Data) // if this write fails, the next read fails too
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

// scanEvery is the interval between two scans for late calls.
const scanEvery = 100 * time.Millisecond

// TestAStreamMayBeSilentForAWhile sends a second request long after the first, and no third.
func TestAStreamMayBeSilentForAWhile(t *testing.T) {
	t.Parallel()
	s := run(t, Config{GRPC: "127.0.0.1:0", BodyTimeout: 4 * scanEvery, IdleTimeout: 20 * scanEvery})
	stream, err := stintv1.NewLimiterServiceClient(dialGRPC(t, s)).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		<-time.After(6 * scanEvery)
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

// TestAWatchedStreamIsAwaitedForItsRequestAlone watches health for longer than a client may take
// to send a message.
func TestAWatchedStreamIsAwaitedForItsRequestAlone(t *testing.T) {
	t.Parallel()
	s := run(t, Config{GRPC: "127.0.0.1:0", BodyTimeout: 2 * scanEvery, IdleTimeout: 2 * scanEvery})
	watch, err := healthpb.NewHealthClient(dialGRPC(t, s)).Watch(patient(t), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	wantHealth(t, watch, healthpb.HealthCheckResponse_SERVING)
	<-time.After(6 * scanEvery)
	s.stop()
	wantHealth(t, watch, healthpb.HealthCheckResponse_NOT_SERVING)
}
