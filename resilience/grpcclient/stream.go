package grpcclient

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/client"
)

// Stream is a [grpc.StreamClientInterceptor]. The breaker counts a stream as a success at
// its first message; a stream without one counts by its final status.
func (c *Client) Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	c.once.Do(c.options.setDefaults)
	ctx = c.options.ObserveStart(ctx, stint.Event{Kind: stint.EventRequest})
	start := time.Now()
	call, err := c.options.Begin(ctx, c.options.Key(ctx, cc.Target(), method))
	if err != nil {
		err = c.refused(ctx, err, 1, nil)
		c.options.Observe(ctx, stint.Event{Kind: stint.EventRequest, Attempt: 1, Took: time.Since(start), Result: result(err), Err: err})
		return nil, err
	}
	s := &stream{client: c, ctx: ctx, call: call, start: start}
	if err := s.open(func() (grpc.ClientStream, error) {
		s.attempt = c.options.ObserveStart(ctx, stint.Event{Kind: stint.EventAttempt, Attempt: 1})
		return streamer(s.attempt, desc, cc, method, append(slices.Clip(opts), grpc.OnFinish(s.end))...)
	}); err != nil {
		return nil, err
	}
	return s, nil
}

// stream holds a place until it ends.
type stream struct {
	grpc.ClientStream

	client  *Client
	ctx     context.Context //nolint:containedctx // a stream is a call
	attempt context.Context //nolint:containedctx // that of its only attempt
	call    *client.Call
	start   time.Time

	judged, ended sync.Once
}

func (s *stream) open(streamer func() (grpc.ClientStream, error)) (err error) {
	returned := false
	defer func() {
		if !returned { // the handler of an event panics
			s.call.Failure()
		}
	}()
	s.ClientStream, err = streamer()
	returned = true
	if err != nil {
		s.end(err)
	}
	return err
}

// RecvMsg reads a message.
func (s *stream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil {
		s.end(err)
	} else {
		s.judge(nil)
	}
	return err
}

func (s *stream) judge(err error) {
	s.judged.Do(func() {
		s.client.reportOutcome(s.ctx, s.call, err)
		s.client.options.Observe(s.attempt, stint.Event{Kind: stint.EventAttempt, Attempt: 1, Took: time.Since(s.start), Result: result(err), Err: err})
	})
}

// end is called by gRPC or by the reader, whichever sees the end first. Only gRPC sees
// that a context has ended, a connection was closed or messages could not be sent.
func (s *stream) end(err error) {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	s.ended.Do(func() {
		defer s.call.Release()
		s.judge(err)
		s.client.options.Observe(s.ctx, stint.Event{Kind: stint.EventRequest, Attempt: 1, Took: time.Since(s.start), Result: result(err), Err: err})
	})
}
