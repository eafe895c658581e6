package grpcclient

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/stintdev/stint/resilience/client"
)

// Stream is a [grpc.StreamClientInterceptor]. The breaker judges a stream by
// the first message that comes, or by how it ended without one.
func (c *Client) Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	start := time.Now()
	pass, err := c.options.Enter(ctx, c.options.Key(ctx, cc.Target(), method))
	if err != nil {
		err = c.refused(err, 1, nil)
		c.options.Observe(client.Event{Kind: client.Ended, Attempt: 1, Took: time.Since(start), Result: result(err), Err: err})
		return nil, err
	}
	s := &stream{client: c, ctx: ctx, pass: pass, start: start, single: !desc.ServerStreams}
	s.ClientStream, err = streamer(ctx, desc, cc, method, opts...)
	if err != nil {
		s.end(err)
		return nil, err
	}
	s.stop = context.AfterFunc(ctx, func() { s.end(ctx.Err()) })
	return s, nil
}

// stream holds a place until it ends.
type stream struct {
	grpc.ClientStream

	client *Client
	ctx    context.Context //nolint:containedctx // a stream is a call
	pass   *client.Pass
	start  time.Time
	single bool        // it ends with one message
	stop   func() bool // of waiting for ctx

	judged, ended sync.Once
}

// RecvMsg reads a message.
func (s *stream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil && !s.single {
		s.judge(nil)
		return nil
	}
	s.stop()
	s.end(err)
	return err
}

func (s *stream) judge(err error) {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	s.judged.Do(func() {
		s.client.judge(s.ctx, s.pass, err)
		s.client.options.Observe(client.Event{Kind: client.Sent, Attempt: 1, Took: time.Since(s.start), Result: result(err), Err: err})
	})
}

func (s *stream) end(err error) {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	s.ended.Do(func() {
		s.judge(err)
		s.pass.Leave()
		s.client.options.Observe(client.Event{Kind: client.Ended, Attempt: 1, Took: time.Since(s.start), Result: result(err), Err: err})
	})
}
