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

// unfinished bounds how long a client may take to send a message. HTTP/2 considers a
// client alive that answers pings, and grpc-go waits for the rest of a message until the
// client's own deadline, if there is one. A timer per call would cost more than this
// list, which is scanned every lookEvery while it is not empty. Its methods are safe for
// concurrent use.
type unfinished struct {
	within time.Duration // bound for the single message of a call
	idle   time.Duration // bound for each message of a client stream
	began  time.Time

	mu    sync.Mutex
	calls []*awaitedCall
	timer *time.Timer
	armed bool
}

// lookEvery is the interval between scans of the list, which remove late calls and calls
// that have ended otherwise.
const lookEvery = 100 * time.Millisecond

func newUnfinished(within, idle time.Duration) *unfinished {
	u := &unfinished{within: within, idle: idle, began: time.Now()}
	u.timer = time.AfterFunc(0, u.look)
	return u
}

// awaitedCall is a call whose next message is awaited, or a stream.
type awaitedCall struct {
	context.Context //nolint:containedctx // it is one itself

	cancel context.CancelFunc
	until  atomic.Int64 // deadline in nanoseconds since unfinished.began, or one of the constants below
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

// begin registers a call when its headers have arrived. A call whose own deadline is
// nearer needs no bound.
func (u *unfinished) begin(ctx context.Context, _ *tap.Info) (context.Context, error) {
	if own, ok := ctx.Deadline(); ok && time.Until(own) < u.within {
		return ctx, nil
	}
	c := &awaitedCall{}
	c.Context, c.cancel = context.WithCancel(ctx)
	u.await(c, u.within)
	u.mu.Lock()
	defer u.mu.Unlock()
	c.place = len(u.calls)
	u.calls = append(u.calls, c)
	if !u.armed {
		u.armed = true
		u.timer.Reset(lookEvery)
	}
	return c, nil
}

// await sets the deadline for the next message of a call. A call that was cut off stays
// so.
func (u *unfinished) await(c *awaitedCall, within time.Duration) {
	if until := c.until.Load(); until != late {
		c.until.CompareAndSwap(until, int64(time.Since(u.began)+within))
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

// unary runs after the single message of a call has arrived.
func (u *unfinished) unary(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if c, ok := ctx.Value(awaitedKey{}).(*awaitedCall); ok {
		if !c.received() {
			return nil, errLate
		}
		u.forget(c)
	}
	return next(ctx, request)
}

// stream runs when a stream begins, before its first message.
func (u *unfinished) stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if c, ok := stream.Context().Value(awaitedKey{}).(*awaitedCall); ok {
		defer u.forget(c)
		within := u.within
		if info.IsClientStream {
			within = u.idle
		}
		u.await(c, within)
		stream = &awaitedStream{stream, u, c, within}
	}
	return next(service, stream)
}

// awaitedStream bounds the wait for each message, measured from the call of RecvMsg.
type awaitedStream struct {
	grpc.ServerStream

	unfinished *unfinished
	call       *awaitedCall
	within     time.Duration
}

func (s *awaitedStream) RecvMsg(m any) error {
	s.unfinished.await(s.call, s.within)
	err := s.ServerStream.RecvMsg(m)
	if !s.call.received() {
		return errLate
	}
	return err
}

// forget removes a call from the list, if it is still there.
func (u *unfinished) forget(c *awaitedCall) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c.place != gone {
		u.removeLocked(c)
	}
}

func (u *unfinished) removeLocked(c *awaitedCall) {
	last := len(u.calls) - 1
	u.calls[c.place] = u.calls[last]
	u.calls[c.place].place = c.place
	u.calls[last] = nil
	u.calls = u.calls[:last]
	c.place = gone
}

// look cuts off late calls, and removes them and the calls that have ended.
func (u *unfinished) look() {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := int64(time.Since(u.began))
	for _, c := range slices.Backward(u.calls) { // backward, because removeLocked moves the last call into the freed place
		until := c.until.Load()
		cut := until >= 0 && until <= now && c.until.CompareAndSwap(until, late)
		if cut || c.Context.Err() != nil {
			c.cancel()
			u.removeLocked(c)
		}
	}
	if u.armed = len(u.calls) > 0; u.armed {
		u.timer.Reset(lookEvery)
	}
}
