package adminapi

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
)

// smallBody is what a body may have, by its own word, without waiting for others:
// no more than the connection costs that it comes on.
const smallBody = 64 << 10

// bodyWait is how long a request waits until its body can be read.
const bodyWait = 10 * time.Second

// codeBusy is what a request is told that has waited so long.
const codeBusy = "BUSY"

// bodies bounds the bytes of the bodies that are held at once. A request reserves
// the length of its body before the first byte of it is read, and keeps that until
// it is answered: what waits is in the buffers of the kernel and of the client, not
// here. Requests are served in the order in which they came.
type bodies struct {
	held *semaphore.Weighted
	wait time.Duration
}

func newBodies() *bodies { return &bodies{semaphore.NewWeighted(maxBody), bodyWait} }

// reserve waits for room for a body of at most that many bytes. The caller calls
// release when the body is not needed any more.
func (b *bodies) reserve(ctx context.Context, r *http.Request, most int64) (release func(), err error) {
	size := r.ContentLength
	switch {
	case size < 0: // it is sent in chunks, and does not say
		size = most
	case size <= smallBody:
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.wait)
	defer cancel()
	if b.held.Acquire(ctx, size) != nil {
		return nil, &apiError{Status: http.StatusServiceUnavailable, Code: codeBusy,
			Message: "body: others of this size are being read, and this one has waited too long (try again)"}
	}
	return func() { b.held.Release(size) }, nil
}
