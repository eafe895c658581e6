package slowclient

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// Messages bounds how long a client may take to send a gRPC message. HTTP/2 considers a
// client alive that answers pings, and grpc-go waits for the rest of a message until the
// client's own deadline, if there is one. A timer per call would cost more than this
// list, which is scanned every scanEvery while it is not empty. Its methods are safe for
// concurrent use. Make it with [NewMessages].
type Messages struct {
	within time.Duration // bound for the single message of a call
	idle   time.Duration // bound for each message of a client stream
	began  time.Time

	mu    sync.Mutex
	calls []*awaitedCall // each knows its index, so that it can be removed at once
	timer *time.Timer
	armed bool
}

// scanEvery is the interval between scans of the list. A scan removes late calls and calls that
// have ended.
const scanEvery = 100 * time.Millisecond

// NewMessages bounds the single message of a call by within, and each message of a client
// stream by idle. Use Begin, Unary and Stream of one Messages in one server.
func NewMessages(within, idle time.Duration) *Messages {
	m := &Messages{within: within, idle: idle, began: time.Now()}
	m.timer = time.AfterFunc(0, m.scan)
	return m
}

// awaitedCall is a call whose next message is awaited, or a stream.
type awaitedCall struct {
	context.Context //nolint:containedctx // messageContext is itself a context

	cancel context.CancelFunc
	until  atomic.Int64 // deadline in nanoseconds since Messages.began, or one of the constants below
	place  int          // index in calls, or gone
}

const (
	served = -1 // no message is awaited
	late   = -2 // the call was cut off; final

	gone = -1
)

type awaitedKey struct{}

// Value returns the awaitedCall itself for its own key.
func (c *awaitedCall) Value(key any) any {
	if key == (awaitedKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// Err returns DeadlineExceeded for a call that was cut off, so that its client learns
// why.
func (c *awaitedCall) Err() error {
	err := c.Context.Err()
	if err != nil && c.until.Load() == late { // until is set to late before the context is canceled
		return context.DeadlineExceeded
	}
	return err
}

// Begin is the [tap.ServerInHandle]. It registers a call when its headers have arrived. A
// call whose own deadline is nearer needs no bound.
func (m *Messages) Begin(ctx context.Context, _ *tap.Info) (context.Context, error) {
	if own, ok := ctx.Deadline(); ok && time.Until(own) < m.within {
		return ctx, nil
	}
	c := &awaitedCall{}
	c.Context, c.cancel = context.WithCancel(ctx)
	m.await(c, m.within)
	m.mu.Lock()
	defer m.mu.Unlock()
	c.place = len(m.calls)
	m.calls = append(m.calls, c)
	if !m.armed {
		m.armed = true
		m.timer.Reset(scanEvery)
	}
	return c, nil
}

// await sets the deadline for the next message of a call. A call that was cut off stays
// so.
func (m *Messages) await(c *awaitedCall, within time.Duration) {
	if until := c.until.Load(); until != late {
		c.until.CompareAndSwap(until, int64(time.Since(m.began)+within))
	}
}

// received clears the deadline. It reports false if the call was already cut off.
func (c *awaitedCall) received() bool {
	until := c.until.Load()
	return until != late && c.until.CompareAndSwap(until, served)
}

// errLate answers a message that arrives just as its call is cut off. In other cases
// grpc-go reports the error.
var errLate = status.Error(codes.DeadlineExceeded, "the message took too long to come")

// Unary is an interceptor. It runs after the single message of a call has arrived.
func (m *Messages) Unary(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if c, ok := ctx.Value(awaitedKey{}).(*awaitedCall); ok {
		if !c.received() {
			return nil, errLate
		}
		m.forget(c)
	}
	return next(ctx, request)
}

// Stream is an interceptor. It runs when a stream begins, before its first message.
func (m *Messages) Stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if c, ok := stream.Context().Value(awaitedKey{}).(*awaitedCall); ok {
		defer m.forget(c)
		within := m.within
		if info.IsClientStream {
			within = m.idle
		}
		m.await(c, within)
		stream = &awaitedStream{stream, m, c, within}
	}
	return next(service, stream)
}

// awaitedStream bounds the wait for each message, measured from the call of RecvMsg.
type awaitedStream struct {
	grpc.ServerStream

	messages *Messages
	call     *awaitedCall
	within   time.Duration
}

// RecvMsg implements [grpc.ServerStream].
func (s *awaitedStream) RecvMsg(message any) error {
	s.messages.await(s.call, s.within)
	err := s.ServerStream.RecvMsg(message)
	if !s.call.received() {
		return errLate
	}
	return err
}

// forget removes a call from the list, if it is still there.
func (m *Messages) forget(c *awaitedCall) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.place != gone {
		m.removeLocked(c)
	}
}

func (m *Messages) removeLocked(c *awaitedCall) {
	last := len(m.calls) - 1
	m.calls[c.place] = m.calls[last]
	m.calls[c.place].place = c.place
	m.calls[last] = nil
	m.calls = m.calls[:last]
	c.place = gone
}

// scan cuts off late calls, and removes them and the calls that have ended.
func (m *Messages) scan() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := int64(time.Since(m.began))
	for _, c := range slices.Backward(m.calls) { // backward, because removeLocked moves the last call into the freed place
		until := c.until.Load()
		cut := until >= 0 && until <= now && c.until.CompareAndSwap(until, late)
		if cut || c.Context.Err() != nil {
			c.cancel()
			m.removeLocked(c)
		}
	}
	if m.armed = len(m.calls) > 0; m.armed {
		m.timer.Reset(scanEvery)
	}
}
