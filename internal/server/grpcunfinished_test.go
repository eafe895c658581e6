package server

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	stintv1 "github.com/stintdev/stint/api/stint/v1"
)

// TestAHalfCallOfALivelyClientIsEnded stops in the middle of a message, and
// goes on answering pings.
func TestAHalfCallOfALivelyClientIsEnded(t *testing.T) {
	t.Parallel()
	s := run(t, Config{GRPC: "127.0.0.1:0", BodyTimeout: soon})
	conn := dial(t, s.Addr("grpc"))
	if _, err := io.WriteString(conn, http2Preface()+http2Call()[:len(http2Call())-5]); err != nil {
		t.Fatal(err)
	}
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
				if field.Name == "grpc-status" && field.Value != "4" {
					t.Errorf("%s: %s, want 4", field.Name, field.Value)
				}
			}
			if f.StreamEnded() {
				return
			}
		}
	}
}

// TestAStreamMayBeSilent asks a second time long after the first.
func TestAStreamMayBeSilent(t *testing.T) {
	t.Parallel()
	s := run(t, Config{GRPC: "127.0.0.1:0", BodyTimeout: 4 * lookEvery})
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
}

func TestCallsAreAwaitedForAWhile(t *testing.T) {
	const within = time.Second
	begin := func(u *unfinished, ctx context.Context) context.Context {
		ctx, _ = u.begin(ctx, nil) // which never fails
		return ctx
	}
	state := func(u *unfinished) (calls int, armed bool) {
		synctest.Wait()
		u.mu.Lock()
		defer u.mu.Unlock()
		return len(u.calls), u.armed
	}
	synctest.Test(t, func(t *testing.T) {
		u := newUnfinished(within)
		left, leave := context.WithCancel(t.Context())
		hurried, cancel := context.WithTimeout(t.Context(), within/2)
		defer cancel()
		whole, half, gone := begin(u, t.Context()), begin(u, t.Context()), begin(u, left)
		if got := begin(u, hurried); got != hurried {
			t.Error("a call with a deadline of its own is looked after")
		}
		if err := u.received(whole); err != nil {
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
		if err := u.received(half); err == nil {
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
