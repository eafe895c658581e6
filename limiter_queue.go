package stint

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// waiting holds the queues of a limiter and of its copies with other policies: one
// for each key with waiters.
//
// The problem: callers that wait for one key must be served in order, and only
// few of them should poll the store. The approach: a queue is a linked list of
// its waiters. The first waiter calls the store and sleeps for the retry time
// of the denial; the others block on a channel until the waiters before them
// have left. A queue needs no goroutine of its own, and is removed together
// with its last waiter.
type waiting struct {
	took atomic.Int64 // recent latency of the store in ns; measured only for calls with a bound on the wait

	mu     sync.Mutex
	queues map[string]*waitQueue // nil when nobody waits
}

// waitQueue is the queue of the waiters for one key, first in, first out.
type waitQueue struct {
	first, last *waiter
	costs       int64 // sum over all waiters
	// from is the time from which the estimates of service times count. Under
	// a single bucket, a waiter is served once the costs of the queue up to
	// its own have refilled or drained since from. Under other limits only the
	// first waiter's time is known, so from is a lower bound for all of them.
	from    time.Time
	checked time.Time // the value of from when late waiters were last dropped
	denial  Decision  // the latest
}

// waiter is one call that waits.
type waiter struct {
	key  string
	keys []string // of a joint request; nil: key is the only one
	cost int64
	end  time.Time // deadline for being served, by the limiter's clock; zero: none

	denial Decision    // the latest, with the whole wait as its RetryAfter
	next   chan action // the next action, sent to a waiter that stands by

	// Guarded by the lock of waiting:
	queue         *waitQueue // nil: the waiter is in no queue
	before, after *waiter
	standing      bool // blocked in standBy, or about to be
}

// action is what a waiter does next.
type action uint8

const (
	askNow   action = iota // call the store
	askLater               // call the store after the retry time of the denial
	standBy                // block until the waiters before it have left
	giveUp                 // return the denial: it would be served too late
)

// maxTries bounds how many waiters of one queue call the store at once.
const maxTries = 64

// nearby is the latency of a store below which the places in a leaky bucket are
// requested one after the other, which keeps their order. Several concurrent
// requests may reach the store in any order, and the first of them gets the
// shortest delay. From this latency on, requests one by one would hold up the
// queue, so up to maxTries run at once.
const nearby = time.Millisecond

// notLater is how far requests that bypass a queue may delay it before the
// queue drops the waiters that are now too late. Each check visits every
// waiter, so it does not run for smaller delays.
const notLater = time.Millisecond

// arrive puts a new waiter into the queue of its key, if there is one, and
// returns its first action.
func (g *waiting) arrive(l *Limiter, w *waiter) action {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.queues[w.key]
	if q == nil {
		return askNow
	}
	return g.joinLocked(l, q, w)
}

// joinLocked puts a waiter at the end of a queue that is not empty, unless it
// would be served too late there.
func (g *waiting) joinLocked(l *Limiter, q *waitQueue, w *waiter) action {
	if w.cost > l.most {
		w.denial = q.deniedFor(Never)
		return giveUp
	}
	if q.tooLate(l, w, q.costs+w.cost) {
		return giveUp
	}
	w.standing, w.next = true, make(chan action, 1)
	q.push(w)
	return standBy
}

// deny returns the next action of a waiter that the store has just denied. late
// means that the request cannot be served before the waiter's end.
func (g *waiting) deny(l *Limiter, w *waiter, d Decision, wait time.Duration, late bool) action {
	w.denial = d
	if late {
		w.denial.RetryAfter = wait
		g.leave(w)
		return giveUp
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.queue == nil {
		if q := g.queues[w.key]; q != nil {
			return g.joinLocked(l, q, w)
		}
		if g.queues == nil {
			g.queues = map[string]*waitQueue{}
		}
		q := &waitQueue{}
		g.queues[w.key] = q
		q.push(w)
	}
	q := w.queue
	if q.first != w {
		w.standing, w.next = true, make(chan action, 1)
		return standBy
	}
	q.denial = d
	q.from = l.now().Add(wait - l.flow(l.awaited(w.cost)))
	if q.checked.IsZero() || q.from.Before(q.checked) {
		q.checked = q.from
	}
	if q.from.Sub(q.checked) > notLater {
		q.checked = q.from
		q.dropLate(l)
	}
	return askLater
}

// serve removes a waiter that was allowed, by a call that took the given time.
// It wakes the next waiter, and those behind it whose costs fit into what
// remains.
func (g *waiting) serve(l *Limiter, w *waiter, remaining int64, took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if q := w.queue; q != nil {
		flowed := l.flow(w.cost)
		q.from, q.checked = q.from.Add(flowed), q.checked.Add(flowed)
		tries := maxTries
		if l.shapes && took < nearby {
			tries = 1
		}
		g.removeLocked(w, remaining, tries)
	}
}

// expire removes a waiter whose end came while it stood by.
func (g *waiting) expire(l *Limiter, w *waiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if q := w.queue; q != nil {
		w.denial = q.deniedFor(max(q.from.Sub(l.now()), time.Microsecond))
		g.removeLocked(w, 0, 1)
	}
}

// leave removes a waiter that gives up.
func (g *waiting) leave(w *waiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.queue != nil {
		g.removeLocked(w, 0, 1)
	}
}

func (g *waiting) removeLocked(w *waiter, remaining int64, tries int) {
	q := w.queue
	q.remove(w)
	if q.first != nil {
		q.wake(remaining, tries)
		return
	}
	delete(g.queues, w.key)
	if len(g.queues) == 0 {
		g.queues = nil // maps do not shrink
	}
}

func (q *waitQueue) push(w *waiter) {
	w.queue, w.before = q, q.last
	if q.last == nil {
		q.first = w
	} else {
		q.last.after = w
	}
	q.last = w
	q.costs += w.cost
}

func (q *waitQueue) remove(w *waiter) {
	if w.before == nil {
		q.first = w.after
	} else {
		w.before.after = w.after
	}
	if w.after == nil {
		q.last = w.before
	} else {
		w.after.before = w.before
	}
	w.queue, w.before, w.after = nil, nil, nil
	q.costs -= w.cost
}

// wake tells the first waiter to call the store, and the waiters behind it
// whose costs fit into what remains; at most tries waiters in all.
func (q *waitQueue) wake(remaining int64, tries int) {
	for w := q.first; w != nil && tries > 0; w = w.after {
		if w != q.first && w.cost > remaining {
			return
		}
		remaining -= w.cost
		tries--
		w.send(askNow)
	}
}

// send sends the next action to the waiter, if it stands by.
func (w *waiter) send(a action) {
	if w.standing {
		w.standing = false
		w.next <- a // never blocks: one action is sent for each time the waiter stands by
	}
}

// standBy blocks until the waiter receives its next action or its end comes, and
// returns that action. ok is false when ctx ends first.
func (g *waiting) standBy(ctx context.Context, l *Limiter, w *waiter) (next action, ok bool) {
	var end <-chan struct{}
	if deadline, ok := ctx.Deadline(); !w.end.IsZero() && (l.clock != nil || !ok || w.end.Before(deadline)) {
		var stop func()
		end, stop = l.alarm(ctx, w.end)
		defer stop()
	}
	select {
	case next = <-w.next:
		return next, true
	case <-end:
		g.expire(l, w)
		return giveUp, true
	case <-ctx.Done():
		return giveUp, false
	}
}

// dropLate removes the waiters that would be served too late and tells them to
// give up.
func (q *waitQueue) dropLate(l *Limiter) {
	costs := int64(0)
	for w := q.first; w != nil; {
		after := w.after
		if w.standing && q.tooLate(l, w, costs+w.cost) {
			q.remove(w)
			w.send(giveUp)
		} else {
			costs += w.cost
		}
		w = after
	}
}

// tooLate reports whether a waiter would be served after its end. costs is the
// sum of the costs up to and including its own. It sets the denial of a waiter
// that is too late.
func (q *waitQueue) tooLate(l *Limiter, w *waiter, costs int64) bool {
	if w.end.IsZero() {
		return false
	}
	at := q.from.Add(l.flow(costs - w.cost + l.awaited(w.cost)))
	if !at.After(w.end) {
		return false
	}
	w.denial = q.deniedFor(max(at.Sub(l.now()), time.Microsecond))
	return true
}

func (q *waitQueue) deniedFor(wait time.Duration) Decision {
	d := q.denial
	d.Allowed, d.RetryAfter = false, wait
	return d
}

// flow returns how long a single bucket takes to refill or drain the units. It
// returns 0 under several limits and under algorithms without a rate.
func (l *Limiter) flow(units int64) time.Duration {
	if !l.limit.Valid() || l.limit.n.p == 0 {
		return 0
	}
	if units > maxMicros/microUnits {
		return micros(maxMicros)
	}
	return micros(l.limit.n.emptied(units*microUnits, 0))
}

// awaited returns how much of its own cost a waiter waits for: all of it under
// a token bucket, and nothing under a leaky bucket, where a request waits only
// for those before it.
func (l *Limiter) awaited(cost int64) int64 {
	if l.shapes {
		return 0
	}
	return cost
}
