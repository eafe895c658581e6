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

// unfinished bounds how long a client may take to send the message of a call.
// One that answers pings is alive to HTTP/2, and grpc-go would wait for the rest
// until the deadline that the client itself has set, if it has. A timer for each
// call would cost more than this list, which is looked through a few times a
// second while there is any. Its methods are safe for use by many goroutines at
// once.
type unfinished struct {
	within time.Duration

	mu    sync.Mutex
	calls []*halfCall
	timer *time.Timer
	armed bool
}

// lookEvery is how often the list is looked through, for the late and for
// those that ended in another way.
const lookEvery = 100 * time.Millisecond

func newUnfinished(within time.Duration) *unfinished {
	u := &unfinished{within: within}
	u.timer = time.AfterFunc(0, u.look)
	return u
}

// halfCall is one whose message has not come whole.
type halfCall struct {
	context.Context //nolint:containedctx // it is one itself

	cancel context.CancelFunc
	until  time.Time
	place  int // in calls; gone: no longer there
	late   atomic.Bool
}

const gone = -1

type halfCallKey struct{}

// Value finds the call itself among those of its context.
func (c *halfCall) Value(key any) any {
	if key == (halfCallKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// Err tells the client that was late so.
func (c *halfCall) Err() error {
	err := c.Context.Err()
	if err != nil && c.late.Load() { // which is decided before it ends
		return context.DeadlineExceeded
	}
	return err
}

// begin is told of each call when its header has come.
func (u *unfinished) begin(ctx context.Context, _ *tap.Info) (context.Context, error) {
	until := time.Now().Add(u.within)
	if own, ok := ctx.Deadline(); ok && own.Before(until) {
		return ctx, nil
	}
	c := &halfCall{until: until}
	c.Context, c.cancel = context.WithCancel(ctx)
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

// unary runs when the message of a call has come.
func (u *unfinished) unary(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := u.received(ctx); err != nil {
		return nil, err
	}
	return next(ctx, request)
}

// stream lets messages come when they like.
func (u *unfinished) stream(service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := u.received(stream.Context()); err != nil {
		return err
	}
	return next(service, stream)
}

// received forgets a call. It fails when that was too late.
func (u *unfinished) received(ctx context.Context) error {
	c, ok := ctx.Value(halfCallKey{}).(*halfCall)
	if !ok {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if c.place == gone {
		return status.Error(codes.DeadlineExceeded, "the message took too long to come")
	}
	u.removeLocked(c)
	return nil
}

func (u *unfinished) removeLocked(c *halfCall) {
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
	now := time.Now()
	for _, c := range slices.Backward(u.calls) { // removing moves what was looked at
		late := !now.Before(c.until)
		if late || c.Context.Err() != nil {
			c.late.Store(late)
			c.cancel()
			u.removeLocked(c)
		}
	}
	if u.armed = len(u.calls) > 0; u.armed {
		u.timer.Reset(lookEvery)
	}
}
