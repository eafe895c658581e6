package grpclimit

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint/httplimit"
)

// Server asks a decider before it lets calls reach their handlers. Its fields
// must not change once it is in use.
type Server struct {
	// Decider decides each unary call, and each stream as it opens. Nil lets
	// all pass.
	Decider Decider
	// Messages decides each message that a client sends on a stream of many,
	// beside what Decider said of the stream. A message that is denied ends
	// the stream. Defaults to none.
	Messages Decider
	// Identity says who a call is from.
	Identity httplimit.Identity
	// Clock returns the time that metadata is told from. Defaults to
	// time.Now.
	Clock func() time.Time
	// OnError answers a call that could not be decided. It may log err, and
	// return nil to let the call pass, unless its token is rejected. Defaults
	// to [ErrorStatus].
	OnError func(c *Call, err error) error
}

// Options returns both interceptors as options of a server. They run after
// those that were added before.
func (s *Server) Options() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(s.Unary), grpc.ChainStreamInterceptor(s.Stream)}
}

// Unary is a [grpc.UnaryServerInterceptor]. A call that a leaky bucket delays
// waits here; when its context ends first, handler is not called. A [Counter]
// denies what it would delay past the deadline of the call.
func (s *Server) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if err := s.admitCall(&Call{Method: info.FullMethod, Message: req, ctx: ctx, identity: &s.Identity}); err != nil {
		return nil, err
	}
	return handler(ctx, req)
}

// Stream is a [grpc.StreamServerInterceptor]; see Unary.
func (s *Server) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	c := Call{Method: info.FullMethod, ctx: stream.Context(), identity: &s.Identity}
	if err := s.admitCall(&c); err != nil {
		return err
	}
	if s.Messages != nil && info.IsClientStream {
		stream = &countedStream{ServerStream: stream, server: s, call: c}
	}
	return handler(srv, stream)
}

// countedStream counts what a client sends. RecvMsg is for one goroutine.
type countedStream struct {
	grpc.ServerStream

	server *Server
	call   Call
	ended  error // what ended the stream
}

// RecvMsg waits for the next message and for its turn. A handler that goes on
// after a denial gets no further message.
func (s *countedStream) RecvMsg(m any) error {
	if s.ended != nil {
		return s.ended
	}
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	s.call.Message = m
	s.ended = s.server.admitMessage(&s.call)
	return s.ended
}

// admitCall tells the client of its limits, unless none applied.
func (s *Server) admitCall(c *Call) error {
	if s.Decider == nil {
		return s.rejectToken(c)
	}
	answer, err := s.decide(c, s.Decider)
	if err != nil {
		return err
	}
	if fields := fields(&answer, s.now()); len(fields) > 0 {
		_ = grpc.SetHeader(c.ctx, fields) // fails where somebody has sent them: too late to tell
	}
	return wait(c.ctx, answer.Decision.Delay)
}

// admitMessage tells nothing: the header of a stream is sent but once.
func (s *Server) admitMessage(c *Call) error {
	answer, err := s.decide(c, s.Messages)
	if err != nil {
		return err
	}
	return wait(c.ctx, answer.Decision.Delay)
}

// decide returns the status of what may not pass.
func (s *Server) decide(c *Call, d Decider) (httplimit.Answer, error) {
	answer, err := d.Decide(c.ctx, c)
	switch {
	case err != nil:
		answer = httplimit.Answer{Face: -1}
		if err := s.fail(c, err); err != nil {
			return answer, err
		}
	case !answer.Allowed():
		return answer, s.refuse(c, &answer)
	}
	return answer, s.rejectToken(c)
}

// refuse sends what a denial tells beside its status as trailers. Without
// headers the answer is one frame, which is what lets a client retry.
func (s *Server) refuse(c *Call, a *httplimit.Answer) error {
	d := newDenial(a, c.Method)
	trailer := fields(a, s.now())
	trailer.Set(pushbackField, d.pushback())
	_ = grpc.SetTrailer(c.ctx, trailer) // fails outside of a server alone
	return d.status().Err()
}

func (s *Server) fail(c *Call, err error) error {
	if s.OnError == nil {
		return ErrorStatus(err).Err()
	}
	return s.OnError(c, err)
}

func (s *Server) rejectToken(c *Call) error {
	if s.Identity.Tokens == nil || !c.Request().RejectsToken() {
		return nil
	}
	return status.Error(codes.Unauthenticated, "the token cannot be verified")
}

func (s *Server) now() time.Time {
	if s.Clock == nil {
		return time.Now()
	}
	return s.Clock()
}
