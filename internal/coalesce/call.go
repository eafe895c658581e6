package coalesce

import (
	"context"
	"sync"
	"time"
)

// Call is the batcher's part of a pending call of type P, which embeds it. A pending call
// owns what its batch reads and writes, because the batch may outlive the caller's wait.
type Call[P any] struct {
	Owner *P   // the pending call
	Keep  bool // sent even if its caller leaves; set before Send

	ctx   context.Context //nolint:containedctx // of the caller, while it waits; nil: none that ends
	done  chan struct{}   // receives one value when the call is answered
	own   bool            // run by its caller, so done is not used
	queue *queue[P]

	// Guarded by queue.mu.
	queued     bool
	prev, next *Call[P]
}

// Init makes the call of a new pending call ready. A call can be used again after an
// [Answered] or [Withdrawn] wait.
func (c *Call[P]) Init(owner *P) { c.Owner, c.done = owner, make(chan struct{}, 1) }

func (c *Call[P]) begin(ctx context.Context, q *queue[P]) {
	c.queue, c.own = q, false
	if !c.Keep && ctx.Done() != nil {
		c.ctx = ctx
	}
}

// Outcome says how far a call came while its caller waited.
type Outcome uint8

// The outcomes.
const (
	Answered  Outcome = iota // the batch has stored the answer
	Withdrawn                // the context ended first; the call is never sent
	Abandoned                // the context ended first; the call was or will be sent, and its batch still uses it
)

// Wait returns when the call is answered or ctx ends. It must be called once after each
// Send.
func (c *Call[P]) Wait(ctx context.Context) Outcome {
	outcome := c.wait(ctx)
	if outcome != Abandoned {
		c.ctx = nil
	}
	return outcome
}

func (c *Call[P]) wait(ctx context.Context) Outcome {
	if c.own {
		return Answered
	}
	stop := ctx.Done()
	if stop == nil {
		<-c.done
		return Answered
	}
	select {
	case <-c.done:
		return Answered
	case <-stop:
		return c.leave()
	}
}

// leave removes a queued call, unless it must be sent anyway.
func (c *Call[P]) leave() Outcome {
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	if c.queued && !c.Keep {
		c.queue.removeLocked(c)
		return Withdrawn
	}
	select {
	case <-c.done:
		return Answered
	default:
		return Abandoned
	}
}

// ended reports whether the caller's context has ended at now. The deadline is compared
// too, because the context's own timer may be late.
func (c *Call[P]) ended(now time.Time) bool {
	if c.ctx == nil {
		return false
	}
	deadline, ok := c.ctx.Deadline()
	return ok && !now.Before(deadline) || c.ctx.Err() != nil
}

// queue is a list of calls in the order of their arrival. A call can be removed at any
// place at once.
type queue[P any] struct {
	mu          sync.Mutex
	first, last *Call[P] // guarded by mu, as all below
	len         int
}

func (q *queue[P]) pushLocked(c *Call[P]) {
	c.queued, c.prev, c.next = true, q.last, nil
	if c.prev == nil {
		q.first = c
	} else {
		c.prev.next = c
	}
	q.last = c
	q.len++
}

func (q *queue[P]) removeLocked(c *Call[P]) {
	if c.prev == nil {
		q.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		q.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.queued, c.prev, c.next = false, nil, nil
	q.len--
}
