package grpclimit

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"google.golang.org/grpc"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

// Server asks a decider before it passes a call to its handler. Its fields must not
// change once it is in use.
type Server struct {
	// Decider decides each unary call, and each stream when it opens. Nil allows all
	// of them.
	Decider Decider
	// Messages decides each message that a client sends on a client stream, in
	// addition to Decider. A denied message ends the stream. Nil allows all of them.
	Messages Decider
	// Identity says how the client of a call is identified.
	Identity httplimit.Identity
	// Clock returns the current time for metadata. Defaults to time.Now.
	Clock func() time.Time
	// OnError returns the error of a call that could not be decided. It may log err,
	// and return nil to let the call pass, unless its token is rejected. Defaults to
	// [ErrorStatus].
	OnError func(c *Call, err error) error
}

// Options returns both interceptors as server options. They run after interceptors
// that were added before.
func (s *Server) Options() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(s.Unary), grpc.ChainStreamInterceptor(s.Stream)}
}

// Unary is a [grpc.UnaryServerInterceptor]. A call that a leaky bucket delays waits
// here; if its context ends first, Unary does not call handler. A [Counter] denies a
// call that it would delay past its deadline.
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

// countedStream counts the messages that a client sends. RecvMsg is for one goroutine.
type countedStream struct {
	grpc.ServerStream

	server *Server
	call   Call
	ended  error // returned by all later calls of RecvMsg
}

// RecvMsg receives the next message and waits until it may pass. After a denial it
// returns no further message.
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

// admitCall decides a call and sends the client its limits as header metadata, unless
// none applied.
func (s *Server) admitCall(c *Call) error {
	if s.Decider == nil {
		return s.rejectToken(c)
	}
	answer, err := s.decide(c, s.Decider)
	if err != nil {
		return err
	}
	if fields := fields(&answer, s.now()); len(fields) > 0 {
		_ = grpc.SetHeader(c.ctx, fields) // fails if the header has been sent: too late to report limits
	}
	return wait(c.ctx, answer.Decision.Delay)
}

// admitMessage decides a message. It sends no metadata, because a stream has one
// header.
func (s *Server) admitMessage(c *Call) error {
	answer, err := s.decide(c, s.Messages)
	if err != nil {
		return err
	}
	return wait(c.ctx, answer.Decision.Delay)
}

// decide returns an error for a call or message that may not pass.
func (s *Server) decide(c *Call, d Decider) (httplimit.Answer, error) {
	answer, err := d.Decide(c.ctx, c)
	switch {
	case err != nil:
		answer = httplimit.Answer{Binding: -1}
		if err := s.fail(c, err); err != nil {
			return answer, err
		}
	case !answer.Allowed():
		return answer, s.refuse(c, &answer)
	}
	return answer, s.rejectToken(c)
}

// refuse sends the metadata of a denial as trailers. Without a header the response is
// one frame (trailers-only), which is what allows a client to retry.
func (s *Server) refuse(c *Call, a *httplimit.Answer) error {
	d := newDenial(a, c.Method)
	trailer := fields(a, s.now())
	trailer.Set(pushbackField, d.pushback())
	_ = grpc.SetTrailer(c.ctx, trailer) // fails only outside a server
	return d.status().Err()
}

func (s *Server) fail(c *Call, err error) error {
	if s.OnError == nil {
		return ErrorStatus(err).Err()
	}
	return s.OnError(c, err)
}

func (s *Server) rejectToken(c *Call) error {
	if s.Identity.Tokens == nil {
		return nil
	}
	if err := c.Request().TokenError(); err != nil {
		return ErrorStatus(err).Err()
	}
	return nil
}

func (s *Server) now() time.Time {
	if s.Clock == nil {
		return time.Now()
	}
	return s.Clock()
}

// Option changes what [Limit] does.
type Option func(s *Server, c *Counter)

// By counts by these attributes in place of the client's address; see [Counter.By].
func By(attributes ...string) Option {
	return func(_ *Server, c *Counter) { c.By = attributes }
}

// ByKey counts by the key that a function returns for each call; see [Counter.Key].
func ByKey(key func(c *Call) string) Option {
	return func(_ *Server, c *Counter) { c.Key = key }
}

// Trust makes Limit believe the forwarding headers of these proxies; see
// [httplimit.Clients].
func Trust(proxies ...netip.Prefix) Option {
	return func(s *Server, _ *Counter) { s.Identity.Clients.Trusted = proxies }
}

// Messages also counts each message of a client stream; see [Server.Messages].
func Messages() Option {
	return func(s *Server, c *Counter) { s.Messages = c }
}

// Limit returns interceptors that count calls under a limiter, by the client's address
// unless an option says otherwise. It is shorthand for a [Server] whose decider is a
// [Counter]; use these types for all other settings. The error reports a limiter
// without limits, or an attribute that calls do not have.
func Limit(limiter *stint.Limiter, opts ...Option) (*Server, error) {
	c := &Counter{Limiter: limiter}
	s := &Server{Decider: c}
	for _, opt := range opts {
		opt(s, c)
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("grpclimit: %w", err)
	}
	return s, nil
}
