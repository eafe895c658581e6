package grpclimit

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
)

func TestStreamsCountWhenTheyOpen(t *testing.T) {
	served := make(chan string, 20)
	client := serve(t, &service{served: served}, mustLimit(t, fixed(t), Options{}).Options())
	for range 2 {
		stream := open(t.Context(), t, client)
		for range 3 {
			if err := echo(stream); err != nil {
				t.Fatal(err)
			}
		}
		if header, err := stream.Header(); err != nil || first(header, "x-ratelimit-limit") != "2" {
			t.Errorf("%v, %v", header, err)
		}
		_ = stream.CloseSend()
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	stream := open(t.Context(), t, client)
	if err := echo(stream); status.Code(err) != codes.ResourceExhausted || first(stream.Trailer(), pushbackField) != "30000" {
		t.Errorf("%v, %v", err, stream.Trailer())
	}
	if len(served) != 8 {
		t.Errorf("the handler saw %d; want two streams of three messages", len(served))
	}
}

func TestMessagesCountWhereThatIsAsked(t *testing.T) {
	for name, goesOn := range map[string]bool{"a handler that ends": false, "a handler that reads on": true} {
		served := make(chan string, 20)
		s := asking(t, nil, Options{MessageDecider: counting(t, fixed(t), Options{})})
		client := serve(t, &service{served: served, goesOn: goesOn}, s.Options())
		stream := open(t.Context(), t, client)
		for range 2 {
			if err := echo(stream); err != nil {
				t.Fatal(err)
			}
		}
		err := echo(stream)
		retry, quota := details(err)
		if status.Code(err) != codes.ResourceExhausted || retry == nil || quota == nil || first(stream.Trailer(), pushbackField) != "30000" {
			t.Errorf("%s: %v, %v", name, err, stream.Trailer())
		}
		if len(served) != 3 {
			t.Errorf("%s saw %d; want one stream of two messages", name, len(served))
		}
	}
}

func TestOneMessageFromTheClientIsTheCallItself(t *testing.T) {
	client := serve(t, &service{}, mustLimit(t, fixed(t), Options{Messages: true}).Options())
	for n, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted} {
		stream, err := client.StreamingOutputCall(t.Context(), &pb.StreamingOutputCallRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = stream.Recv(); status.Code(err) != want {
			t.Errorf("call %d: %v; want %v", n, err, want)
		}
	}
}

func TestStreamAndItsMessagesShareTheLimiter(t *testing.T) {
	client := serve(t, &service{}, mustLimit(t, fixed(t), Options{Messages: true}).Options())
	stream := open(t.Context(), t, client)
	if err := echo(stream); err != nil {
		t.Fatal(err)
	}
	if err := echo(stream); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the second message: %v; want a denial, for the stream counts too", err)
	}
}

// sent is a stream that receives messages without end.
type sent struct {
	grpc.ServerStream

	ctx context.Context //nolint:containedctx // the context of the stream
}

func (s *sent) Context() context.Context    { return s.ctx }
func (s *sent) RecvMsg(any) error           { return nil }
func (s *sent) SetHeader(metadata.MD) error { return nil }
func (s *sent) SetTrailer(metadata.MD)      {}

func TestLeakyBucketPacesMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now
		s := asking(t, nil, Options{MessageDecider: counting(t, limiter(t, now, stint.Spec{Algorithm: stint.LeakyBucket, Limit: 10, Window: time.Second, Queue: 5}), Options{})})
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second-1)
		defer cancel()
		read := 0
		err := s.Stream(nil, &sent{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: unaryMethod, IsClientStream: true}, func(_ any, stream grpc.ServerStream) error {
			for {
				if err := stream.RecvMsg(nil); err != nil {
					return err
				}
				read++
			}
		})
		if read != 10 || status.Code(err) != codes.ResourceExhausted || time.Since(start) != 900*time.Millisecond {
			t.Errorf("%d messages in %v, %v; want ten, and none that comes after a second", read, time.Since(start), err)
		}
	})
}
