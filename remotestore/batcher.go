package remotestore

import (
	"context"
	"runtime"
	"sync"
)

// batcher sends the calls of many goroutines to the server in few round trips.
//
// At most maxInFlight batches are at the server at a time. A call that finds fewer is
// sent at once, by its own goroutine and in its own context. A call that finds
// maxInFlight waits. When a batch returns, the waiting calls leave as the next batch,
// as many as fit. So batches grow with load, and a lone call pays no delay and no
// hand-over. The cost is that a call of a shared batch outlives its caller: such a
// batch ends by Options.Timeout, not by the context of one of its callers.
type batcher struct {
	store *Store

	mu struct {
		sync.Mutex

		waiting  []*call
		sent     int         // batches at the server, or about to be sent
		queueing int         // of these, the ones about to take the waiting calls
		idle     []*inFlight // batches that returned, kept for reuse
	}
}

// maxInFlight bounds the batches at the server. With two, the client encodes and
// decodes one while the server decides the other.
const maxInFlight = 2

// state says how far a call has come. It decides what a canceled caller is told: waits
// means that nothing was charged, flies that the charge is unknown.
type state uint8

const (
	waits state = iota
	flies
	left // its caller gave up before it was sent
)

// carry sends a call, alone or in a batch, and returns when its decisions are in
// c.out. The error is that of the whole call; errors of single groups are in c.errs.
// After an error the call must not be reused, because a batch may still hold it.
func (l *batcher) carry(ctx context.Context, c *call) error {
	if ctx.Err() != nil {
		return endedUnsent(ctx)
	}
	f := l.depart(c)
	if f == nil {
		return l.await(ctx, c)
	}
	f.fly(ctx)
	l.land(f)
	<-c.done
	err := c.err
	if l.queue(f) {
		go l.fly(f) //nolint:gosec // not in the caller's context: the batch holds other callers' calls
	}
	if err != nil && ctx.Err() != nil {
		return endedSent(ctx)
	}
	return err
}

// depart returns a batch of this call alone, which the caller sends itself: handing a
// lone call to another goroutine would cost two switches. It returns nil when the call
// has to wait.
func (l *batcher) depart(c *call) *inFlight {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.sent == maxInFlight || l.mu.queueing > 0 {
		l.mu.waiting = append(l.mu.waiting, c)
		return nil
	}
	l.mu.sent++
	f := l.batchLocked()
	c.state = flies
	f.calls = append(f.calls, c)
	return f
}

func (l *batcher) batchLocked() *inFlight {
	n := len(l.mu.idle)
	if n == 0 {
		return newInFlight(l.store)
	}
	f := l.mu.idle[n-1]
	l.mu.idle = l.mu.idle[:n-1]
	return f
}

// await waits for a call that another goroutine sends.
func (l *batcher) await(ctx context.Context, c *call) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return l.leave(ctx, c)
	}
}

// leave gives up a call whose context has ended. It returns the call's outcome if that
// came first.
func (l *batcher) leave(ctx context.Context, c *call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-c.done:
		return c.err
	default:
	}
	if c.state == waits {
		c.state = left
		return endedUnsent(ctx)
	}
	return endedSent(ctx)
}

// fly sends f, whose first calls are loaded, and then the waiting calls until there
// are none.
func (l *batcher) fly(f *inFlight) {
	for more := true; more; more = l.queue(f) {
		f.fly(context.Background())
		l.land(f)
		l.linger()
	}
}

// land wakes the callers of a batch.
func (l *batcher) land(f *inFlight) {
	for _, c := range f.calls {
		c.done <- struct{}{}
	}
	clear(f.calls)
	f.calls = f.calls[:0]
}

// linger gives the callers that were just answered the chance to send their next call
// in the coming batch. It yields while the queue still grows and holds fewer than
// maxClaims calls, and keeps new calls waiting meanwhile.
func (l *batcher) linger() {
	l.announce(1)
	defer l.announce(-1)
	for before, now := -1, l.queued(); before < now && now < maxClaims; before, now = now, l.queued() {
		runtime.Gosched()
	}
}

func (l *batcher) announce(boarding int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.queueing += boarding
}

func (l *batcher) queued() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.mu.waiting)
}

// queue loads waiting calls into a batch, as many as fit and at least one. It returns
// false when none waits; the batch is then idle.
func (l *batcher) queue(f *inFlight) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	claims, groups, bytes, n := 0, 0, 0, 0
	for _, c := range l.mu.waiting {
		if c.state != left {
			if len(f.calls) > 0 && !c.fitsWith(claims, groups, bytes) {
				break
			}
			c.state = flies
			f.calls = append(f.calls, c)
			claims, groups, bytes = claims+len(c.claims), groups+len(c.groups), bytes+c.bytes
		}
		n++
	}
	l.dropLocked(n)
	if len(f.calls) == 0 {
		l.mu.sent--
		l.mu.idle = append(l.mu.idle, f)
		return false
	}
	return true
}

// dropLocked removes the first n waiting calls.
func (l *batcher) dropLocked(n int) {
	rest := copy(l.mu.waiting, l.mu.waiting[n:])
	clear(l.mu.waiting[rest:])
	l.mu.waiting = l.mu.waiting[:rest]
}
