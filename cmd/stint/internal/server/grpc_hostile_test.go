package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// begun has the bytes of a client in the middle of a call: the headers, and an incomplete
// message.
func begun(t *testing.T) []byte {
	t.Helper()
	var sent, block bytes.Buffer
	sent.WriteString(http2.ClientPreface)
	encoder := hpack.NewEncoder(&block)
	for _, h := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"},
		{":path", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"},
	} {
		if err := encoder.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
			t.Fatal(err)
		}
	}
	framer := http2.NewFramer(&sent, nil)
	err := errors.Join(framer.WriteSettings(), framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true}),
		framer.WriteData(1, false, []byte{0, 0, 0, 0, 100, 0x0a, 4, 's', 'h'}))
	if err != nil {
		t.Fatal(err)
	}
	return sent.Bytes()
}

func TestGRPCConnectionsThatDropLeaveNothing(t *testing.T) {
	s, client := runEnvoy(t, Config{})
	if _, err := client.ShouldRateLimit(patient(t), ofUser("ann", 1)); err != nil {
		t.Fatal(err)
	}
	before, whole, many := runtime.NumGoroutine(), begun(t), 10_000
	if testing.Short() {
		many = 200
	}
	for i := range many {
		conn, err := net.Dial("tcp", s.Addr("grpc").String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write(whole[:i%(len(whole)+1)])
		_ = conn.(*net.TCPConn).SetLinger(0) // a reset, as of a client that was killed; the port is free at once
		conn.Close()
	}
	if _, err := client.ShouldRateLimit(patient(t), ofUser("ann", 1)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); runtime.NumGoroutine() > before+2; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines are left of %d", runtime.NumGoroutine(), before)
		}
	}
}

func TestGRPCClientsThatPingTooOftenAreSentAway(t *testing.T) {
	t.Parallel()
	s := run(t, Config{GRPC: "127.0.0.1:0"})
	conn, err := net.Dial("tcp", s.Addr("grpc").String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		_ = framer.WritePing(false, [8]byte{}) // the connection may end before the last ping
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatalf("never sent away: %v", err)
		}
		if away, ok := frame.(*http2.GoAwayFrame); ok && away.ErrCode == http2.ErrCodeEnhanceYourCalm {
			return
		}
	}
}

func TestGRPCClientsThatSayNothingAreCut(t *testing.T) {
	t.Parallel()
	s := run(t, Config{GRPC: "127.0.0.1:0", HeaderTimeout: 50 * time.Millisecond})
	for _, sent := range []string{"", "PRI * HT"} {
		conn, err := net.Dial("tcp", s.Addr("grpc").String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(conn, sent)
		_, err = io.Copy(io.Discard, conn)
		if netError, ok := errors.AsType[net.Error](err); ok && netError.Timeout() {
			t.Errorf("after %q the connection stays", sent)
		}
	}
}

func TestAPanicOfAStreamEndsTheStream(t *testing.T) {
	t.Parallel()
	s := run(t, Config{})
	err := s.recoverStream(nil, nil, &grpc.StreamServerInfo{FullMethod: "/a/b"}, func(any, grpc.ServerStream) error { panic("a bug") })
	if status.Code(err) != codes.Internal || status.Convert(err).Message() != "no decision could be made" {
		t.Error(err)
	}
	s.logs.wait(t, "panic serving gRPC")
	if err := s.recoverStream(nil, nil, nil, func(any, grpc.ServerStream) error { return context.Canceled }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
