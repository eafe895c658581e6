// Package coalesce combines the calls of many goroutines into few round trips to one
// server.
//
// Problem. A round trip costs a client and a server far more than one more call in it.
// With one round trip per call, thousands of goroutines would spend most of their time
// in the kernel. With a fixed delay to collect calls, a call on an idle server would pay
// that delay for nothing.
//
// Approach. The server sets the pace. At most [Options.InFlight] batches are in flight; two
// suffice, because the client encodes and decodes one while the server works on the
// other, and one makes the largest batches. A call that finds a free place is sent at once, alone. A call that finds none
// waits in a queue, and when a batch returns, the next batch takes all queued calls that
// fit. So batches grow with load, and an idle server costs no delay. Two refinements
// matter:
//
//   - Yield. When a batch returns, its callers wake up and many of them call again at
//     once. Before the next batch takes the queue, its goroutine yields the processor for
//     as long as the queue still grows and holds fewer calls than one batch. Without the
//     yield, the first two or three callers to wake would travel in a small batch of
//     their own. While a goroutine yields, new calls are queued even if a place is free.
//     With [Options.Gather], the first of several callers yields too.
//   - Split. If the queue is long and a second place is free, the queued calls are split
//     between two batches, so that server and client both have work. This pays only where
//     a batch costs the client little beside its calls (see [Options.SplitFrom]).
//
// A batch is run by one goroutine. A caller that may (see [Batcher.Send]) runs the batch
// of its own lone call, because a hand-over to another goroutine costs two switches. All
// batches with queued calls run in a goroutine of the batcher, with a context of their
// own: no caller's context may end the calls of others. That goroutine ends when the
// queue is empty.
//
// Leaving. A caller whose context ends while its call is queued removes the call, which
// is then certain not to be sent. A queued call whose context has ended is not sent
// either if its caller has not noticed yet. Once a call is in a batch, its caller can
// leave, but the call is sent and its outcome is unknown.
//
// Trade-off. A call that meets load waits for a batch to return before it is sent: up to
// half a round trip with two places. In return a server handles as many calls as fit
// into its round trips.
//
// Bound. A frozen server holds at most [Options.InFlight] batches. The queue is bounded by the
// number of callers: each waits for its own call. Batches are reused.
//
// Close. There is nothing to close: an idle batcher has no goroutine. A store that closes
// its connections makes [Batch.Run] fail; queued calls are then sent in the usual order
// and fail in turn.
package coalesce

import (
	"cmp"
	"context"
	"runtime"
	"sync/atomic"
	"time"
)

// MaxInFlight is the default maximum of batches in flight.
const MaxInFlight = 2

// Options say when batches are worth their cost.
type Options struct {
	// InFlight is the maximum of batches in flight. 0 means MaxInFlight.
	InFlight int
	// Full is the number of calls that fill a batch: more callers in the queue are not
	// worth a yield.
	Full int
	// Gather says that a call yields before it is sent although a place is free, if the
	// batch before had several calls. It suits callers who use several batchers in turn: they
	// were answered together by another one, and the first to call would otherwise be sent
	// alone, and the others wait for it.
	Gather bool
	// SplitFrom is the queue length from which two batches are faster than one. 0 means
	// that the queue is never split.
	SplitFrom int
}

// Batch carries calls to the server. One goroutine at a time uses it, and it is reused.
type Batch[P any] interface {
	// Fits reports whether a call fits beside those counted since Reset, and counts it
	// if so. The first call always fits. The batcher's lock may be held.
	Fits(p *P) bool
	// Run sends the calls, waits for the answer and stores it in their owners. It must
	// return in bounded time. ctx is the context of the caller if it runs its own call.
	Run(ctx context.Context, calls []*Call[P])
	// Reset empties the batch after its callers have been woken.
	Reset()
}

// Batcher sends the calls of many goroutines in few batches. It is safe for concurrent
// use. Make it with [New].
type Batcher[P any, B Batch[P]] struct {
	options  Options
	newBatch func() B
	busy     atomic.Bool // a new call must queue; written under queue.mu

	queue queue[P]

	// Guarded by queue.mu.
	sent      int               // batches in flight or about to be sent
	gathering int               // of those, the ones about to take the queue
	last      int               // calls in the last batch
	idle      []*inFlight[P, B] // kept for reuse
}

// New returns a batcher. newBatch makes an empty batch.
func New[P any, B Batch[P]](o Options, newBatch func() B) *Batcher[P, B] {
	o.InFlight = cmp.Or(o.InFlight, MaxInFlight)
	return &Batcher[P, B]{options: o, newBatch: newBatch}
}

// inFlight is a batch and its calls.
type inFlight[P any, B Batch[P]] struct {
	batch B
	calls []*Call[P]
}

// Send sends a call at once if a place is free, and queues it otherwise. The caller must
// then [Call.Wait]. If own is set, a call that is sent at once is run in the goroutine
// and in the context of its caller, and Send returns after its answer. own suits callers
// whose context Run observes.
func (b *Batcher[P, B]) Send(ctx context.Context, c *Call[P], own bool) {
	c.begin(ctx, &b.queue)
	b.queue.mu.Lock()
	if b.busy.Load() {
		b.queue.pushLocked(c)
		b.queue.mu.Unlock()
		return
	}
	f := b.batchLocked()
	if b.options.Gather && b.last > 1 {
		b.countLocked(1, 1)
		b.queue.pushLocked(c)
		b.queue.mu.Unlock()
		go b.runQueued(f)
		return
	}
	b.countLocked(1, 0)
	b.last = 1
	b.queue.mu.Unlock()
	f.batch.Fits(c.Owner)
	f.calls = append(f.calls, c)
	if !own {
		go b.run(f) // not in the context of this caller: later batches have calls of others
		return
	}
	c.own = true
	b.runOwn(ctx, f)
}

// runOwn sends f, which has the lone call of this caller, and hands its place to the
// queued calls. If [Batch.Run] panics, f is lost and its place is not: a caller may
// recover, as net/http does, and the batcher must not run out of places then.
func (b *Batcher[P, B]) runOwn(ctx context.Context, f *inFlight[P, B]) {
	ran := false
	defer func() {
		if !ran {
			b.Release()
		}
	}()
	f.run(ctx)
	ran = true
	if b.next(f) {
		go b.run(f)
	}
}

// TryAcquire takes a place in flight for a round trip that the caller makes without a
// batch. It returns false if no place is free, or if a batch is about to be sent that can
// carry the call. [Batcher.Release] must follow.
func (b *Batcher[P, B]) TryAcquire() bool {
	if b.busy.Load() {
		return false
	}
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	if b.busy.Load() {
		return false
	}
	b.countLocked(1, 0)
	return true
}

// Release hands the place of TryAcquire to the queued calls, if there are any.
func (b *Batcher[P, B]) Release() {
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	if b.queue.first == nil {
		b.countLocked(-1, 0)
		return
	}
	if f := b.batchLocked(); b.nextLocked(f) {
		go b.run(f)
	}
}

// InFlight returns the number of batches and acquired places in flight or about to be.
func (b *Batcher[P, B]) InFlight() int {
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	return b.sent
}

// Queued returns the number of calls in the queue.
func (b *Batcher[P, B]) Queued() int {
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	return b.queue.len
}

// runQueued sends the queued calls, once no more of them arrive.
func (b *Batcher[P, B]) runQueued(f *inFlight[P, B]) {
	b.gather()
	b.count(0, -1) // that of Send
	if b.next(f) {
		b.run(f)
	}
}

// run sends f, which already has its calls, and then further batches until the queue is empty.
func (b *Batcher[P, B]) run(f *inFlight[P, B]) {
	for more := true; more; more = b.next(f) {
		f.run(context.Background())
		b.gather()
	}
}

// run sends f, which already has its calls, and then further batches until the queue is empty.
func (f *inFlight[P, B]) run(ctx context.Context) {
	f.batch.Run(ctx, f.calls)
	for _, c := range f.calls {
		if !c.own {
			c.done <- struct{}{}
		}
	}
	f.batch.Reset()
	clear(f.calls)
	f.calls = f.calls[:0]
}

// gather yields the processor while the queue grows and does not fill a batch, so that
// callers that were just answered can send their next call with the next batch.
func (b *Batcher[P, B]) gather() {
	b.count(0, 1)
	defer b.count(0, -1)
	for before, now := -1, b.Queued(); before < now && now < b.options.Full; before, now = now, b.Queued() {
		runtime.Gosched()
	}
}

// next fills f from the queue. It returns false if f stays empty; its place is then free.
func (b *Batcher[P, B]) next(f *inFlight[P, B]) bool {
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	return b.nextLocked(f)
}

func (b *Batcher[P, B]) nextLocked(f *inFlight[P, B]) bool {
	if split := b.options.SplitFrom; split == 0 || b.queue.len < split || b.sent == b.options.InFlight {
		b.fillLocked(f, b.queue.len)
	} else {
		b.fillLocked(f, b.queue.len/2)
		if other := b.batchLocked(); b.fillLocked(other, b.queue.len) {
			b.countLocked(1, 0)
			go b.run(other)
		} else {
			b.idle = append(b.idle, other)
		}
	}
	if len(f.calls) == 0 {
		b.countLocked(-1, 0)
		b.idle = append(b.idle, f)
		return false
	}
	b.last = len(f.calls)
	return true
}

// fillLocked moves up to limit queued calls to f while they fit, except those whose
// context has ended. It reports whether f has any call.
func (b *Batcher[P, B]) fillLocked(f *inFlight[P, B], limit int) bool {
	if b.queue.first == nil {
		return false
	}
	now := time.Now()
	for c := b.queue.first; c != nil && len(f.calls) < limit; {
		next := c.next
		if !c.ended(now) {
			if !f.batch.Fits(c.Owner) {
				break
			}
			b.queue.removeLocked(c)
			f.calls = append(f.calls, c)
		}
		c = next
	}
	return len(f.calls) > 0
}

// batchLocked returns an empty batch.
func (b *Batcher[P, B]) batchLocked() *inFlight[P, B] {
	n := len(b.idle)
	if n == 0 {
		return &inFlight[P, B]{batch: b.newBatch()}
	}
	f := b.idle[n-1]
	b.idle = b.idle[:n-1]
	return f
}

func (b *Batcher[P, B]) count(sent, gathering int) {
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	b.countLocked(sent, gathering)
}

// countLocked adds to the numbers of batches and updates busy.
func (b *Batcher[P, B]) countLocked(sent, gathering int) {
	b.sent += sent
	b.gathering += gathering
	b.busy.Store(b.sent == b.options.InFlight || b.gathering > 0)
}
