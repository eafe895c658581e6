package adminapi

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
)

// smallBody is the declared length up to which a body need not wait. It costs no
// more memory than its connection.
const smallBody = 64 << 10

// bodyWait is the longest wait until a body can be read.
const bodyWait = 10 * time.Second

// codeBusy is the code of the answer after that wait.
const codeBusy = "BUSY"

// bodies bounds the total length of the bodies, and of the large answers, in memory. A request reserves the
// length of its body before the first byte is read, and holds it until the
// request is answered. Bodies that wait stay in the buffers of the kernel and of
// the client. Requests are served in order of arrival.
type bodies struct {
	held *semaphore.Weighted
	wait time.Duration
}

func newBodies() *bodies { return &bodies{semaphore.NewWeighted(maxBody), bodyWait} }

// reserve waits for room for a body of at most the given length. The caller calls
// release when it no longer needs the body.
func (b *bodies) reserve(ctx context.Context, r *http.Request, most int64) (release func(), err error) {
	size := r.ContentLength
	switch {
	case size < 0: // a chunked body has no declared length
		size = most
	case size <= smallBody:
		return func() {}, nil
	}
	if !b.acquire(ctx, size) {
		return nil, &apiError{Status: http.StatusServiceUnavailable, Code: codeBusy,
			Message: "body: was not read, because the server is reading the large bodies of other requests (try again)"}
	}
	return func() { b.held.Release(size) }, nil
}

// reserveAnswer is reserve for an answer of at most the given length. The memory of an answer is
// in use until the client has read it. shrink releases what the answer turns out not to need.
func (b *bodies) reserveAnswer(ctx context.Context, most int64) (shrink func(size int64), release func(), err error) {
	if !b.acquire(ctx, most) {
		return nil, nil, &apiError{Status: http.StatusServiceUnavailable, Code: codeBusy,
			Message: "the server is busy with the large bodies and answers of other requests (try again)"}
	}
	held := most
	shrink = func(size int64) {
		if size < held {
			b.held.Release(held - size)
			held = size
		}
	}
	return shrink, func() { b.held.Release(held) }, nil
}

// acquire waits for room, and reports whether there was some in time.
func (b *bodies) acquire(ctx context.Context, size int64) bool {
	ctx, cancel := context.WithTimeout(ctx, b.wait)
	defer cancel()
	return b.held.Acquire(ctx, size) == nil
}

// turn serializes work whose time and memory grow with the size of the rules. Many such
// requests at once would starve the requests that are being decided.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take waits for the turn, or until ctx ends.
func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) end() { <-t }
