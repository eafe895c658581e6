package server

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

// unfinished bounds how long a client may take to send a message. One that
// answers pings is alive to HTTP/2, and grpc-go would wait for the rest until
// the deadline that the client itself has set, if it has. A timer for each call
// would cost more than this list, which is looked through a few times a second
// while there is any. Its methods are safe for use by many goroutines at once.
type unfinished struct {
	within time.Duration // for the one message of a call
	idle   time.Duration // for each message of a stream on which many may come
	began  time.Time

	mu    sync.Mutex
	calls []*awaitedCall
	timer *time.Timer
	armed bool
}

// lookEvery is how often the list is looked through, for the late and for
// those that ended in another way.
const lookEvery = 100 * time.Millisecond

func newUnfinished(within, idle time.Duration) *unfinished {
	u := &unfinished{within: within, idle: idle, began: time.Now()}
	u.timer = time.AfterFunc(0, u.look)
	return u
}

// awaitedCall is one of which a message is awaited, or a stream.
type awaitedCall struct {
	context.Context //nolint:containedctx // it is one itself

	cancel context.CancelFunc
	until  atomic.Int64 // nanoseconds since the list began; or one of those below
	place  int          // in calls; gone: no longer there
}

const (
	served = -1 // no message is awaited
	late   = -2 // cut off; for good

	gone = -1
)

type awaitedKey struct{}

// Value finds the call itself among those of its context.
func (c *awaitedCall) Value(key any) any {
	if key == (awaitedKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// Err tells the client that was late so.
func (c *awaitedCall) Err() error {
	err := c.Context.Err()
	if err != nil && c.until.Load() == late { // which is decided before it ends
		return context.DeadlineExceeded
	}
	return err
}

// begin is told of each call when its header has come.
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

// await gives a message of a call its time. A call that was cut off stays so.
func (u *unfinished) await(c *awaitedCall, within time.Duration) {
	if until := c.until.Load(); until != late {
		c.until.CompareAndSwap(until, int64(time.Since(u.began)+within))
	}
}

// received ends the time of a message. It reports false when that was too late.
func (c *awaitedCall) received() bool {
	until := c.until.Load()
	return until != late && c.until.CompareAndSwap(until, served)
}

// errLate is for who comes as its call is cut off. Others are told by grpc-go.
var errLate = status.Error(codes.DeadlineExceeded, "the message took too long to come")

// unary runs when the message of a call has come, the only one.
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

// awaitedStream is a stream each message of which must come in time, counted
// from when the server is ready for it.
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

// forget drops a call from the list, if it is still there.
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

// look cuts off the late, and forgets them and those that have ended.
func (u *unfinished) look() {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := int64(time.Since(u.began))
	for _, c := range slices.Backward(u.calls) { // removing moves what was looked at
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
