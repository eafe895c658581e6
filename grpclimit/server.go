package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/internal/errlog"
)

// Server asks a decider before it passes a call to its handler. Make one with [Limit] or
// [New]: a nil or zero Server fails every call with INTERNAL. It is safe for concurrent
// use.
type Server struct {
	decider  Decider // of calls; nil allows all of them
	messages Decider // of messages on client streams; nil allows all of them
	identity httplimit.Identity
	onDenied func(c *Call, a *httplimit.Answer, denial *status.Status) error
	onError  func(c *Call, err error) error
	log      *errlog.Log
	now      func() time.Time
}

// Limit returns interceptors that count calls under a limiter, by the address of the
// client unless an option says otherwise. It is shorthand for [NewCounter] and [New]. The
// error reports a limiter without limits, or an option that is wrong.
func Limit[L httplimit.Limiter](limiter L, o Options) (*Server, error) {
	c, err := NewCounter(limiter, o)
	if err != nil {
		return nil, err
	}
	return newServer(c, &o)
}

// New returns interceptors that ask a decider, such as an [HTTP] of a rule set. With a
// MessageDecider the decider may be nil: all calls then pass, and their messages are
// decided. The error reports a missing decider, or an option that is wrong or that is for
// counters.
func New(d Decider, o Options) (*Server, error) {
	if err := o.refuseCounting(); err != nil {
		return nil, fmt.Errorf("grpclimit: %w", err)
	}
	return newServer(d, &o)
}

func newServer(d Decider, o *Options) (*Server, error) {
	s := &Server{decider: d, messages: o.MessageDecider, identity: o.Identity, onDenied: o.OnDenied, onError: o.OnError, now: o.Clock}
	s.identity.Clients.Trusted = slices.Concat(s.identity.Clients.Trusted, o.Trust)
	if o.Messages && s.messages == nil {
		s.messages = d
	}
	err := s.identity.Validate()
	for _, d := range []Decider{s.decider, s.messages} {
		err = errors.Join(err, checkDecider(d, &s.identity))
	}
	if s.decider == nil && s.messages == nil {
		err = errors.Join(err, errors.New("the decider is nil (use Limit for a limiter)"))
	}
	if err != nil {
		return nil, fmt.Errorf("grpclimit: %w", err)
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.log = errlog.New(o.Logger, "the rate limit of a call could not be checked", s.now)
	return s, nil
}

func checkDecider(d Decider, id *httplimit.Identity) error {
	if f, ok := d.(DeciderFunc); ok && f == nil {
		return errors.New("the decider is a nil function")
	}
	c, ok := d.(*Counter)
	switch {
	case !ok:
		return nil
	case c == nil || c.http == nil:
		return errNotMade
	case c.claims && id.Tokens == nil:
		return errors.New("claims: no token can be verified (set Identity.Tokens to a verifier, such as one of package jwtverify)")
	}
	return nil
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
	if !s.made() {
		return nil, ErrorStatus(errNotMade).Err()
	}
	if err := s.admitCall(&Call{Method: info.FullMethod, Message: req, ctx: ctx, identity: &s.identity}); err != nil {
		return nil, err
	}
	return handler(ctx, req)
}

// Stream is a [grpc.StreamServerInterceptor]; see Unary.
func (s *Server) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if !s.made() {
		return ErrorStatus(errNotMade).Err()
	}
	c := Call{Method: info.FullMethod, ctx: stream.Context(), identity: &s.identity}
	if err := s.admitCall(&c); err != nil {
		return err
	}
	if s.messages != nil && info.IsClientStream {
		stream = &countedStream{ServerStream: stream, server: s, call: c}
	}
	return handler(srv, stream)
}

// made reports whether the server came from Limit or New.
func (s *Server) made() bool { return s != nil && (s.decider != nil || s.messages != nil) }

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
	if s.decider == nil {
		return s.rejectToken(c)
	}
	answer, err := s.decide(c, s.decider)
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
	answer, err := s.decide(c, s.messages)
	if err != nil {
		return err
	}
	return wait(c.ctx, answer.Decision.Delay)
}

// decide returns an error for a call or message that may not pass.
func (s *Server) decide(c *Call, d Decider) (httplimit.Answer, error) {
	answer, err := d.Decide(c.ctx, c)
	s.log.Note(c.ctx, err)
	if c.request != nil {
		s.log.Note(c.ctx, c.request.VerifierError())
	}
	switch {
	case err != nil:
		answer = httplimit.Answer{Binding: -1}
		if err := s.fail(c, err); err != nil {
			return answer, err
		}
	case !answer.Allowed():
		if err := s.refuse(c, answer); err != nil {
			return answer, err
		}
	}
	return answer, s.rejectToken(c)
}

// refuse returns the error of a denial, or nil if the call passes nevertheless. It sends
// the metadata of a denial as trailers. Without a header the response is one frame
// (trailers-only), which is what allows a client to retry.
func (s *Server) refuse(c *Call, a httplimit.Answer) error {
	d := newDenial(&a, c.Method)
	denial := d.status()
	err := denial.Err()
	if s.onDenied != nil {
		err = s.onDenied(c, &a, denial)
	}
	if err == nil {
		return nil
	}
	trailer := fields(&a, s.now())
	trailer.Set(pushbackField, d.pushback())
	_ = grpc.SetTrailer(c.ctx, trailer) // fails only outside a server
	return err
}

func (s *Server) fail(c *Call, err error) error {
	if s.onError == nil {
		return ErrorStatus(err).Err()
	}
	return s.onError(c, err)
}

// rejectToken returns the error of a call that must not pass because of its token.
func (s *Server) rejectToken(c *Call) error {
	if s.identity.Tokens == nil {
		return nil
	}
	if err := c.Request().TokenError(); err != nil {
		return ErrorStatus(err).Err()
	}
	return nil
}
