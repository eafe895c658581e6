package stint

import (
	"context"
	"sync"
	"time"
)

// waiting is the queues of those that wait for their turn at a limiter, one
// for each key that has any. A queue is a list of its waiters and nothing
// else: it needs no goroutine, and goes with the last of them. Its first
// waiter asks the store and sleeps as that says; the others stand by until
// those before them have left.
type waiting struct {
	mu     sync.Mutex
	queues map[string]*waitQueue // nil when nobody waits
}

// waitQueue is those that wait for one key, the first to be served first.
type waitQueue struct {
	first, last *waiter
	costs       int64 // of all of them
	// from is when the waiters' time begins: one is served when their costs,
	// up to its own, have flowed through the only bucket since then. Under
	// other limits only the time of the first is known: nobody is served
	// before from.
	from    time.Time
	checked time.Time // what from was when it was last seen who comes too late
	denial  Decision  // the latest
}

// waiter is one call that waits.
type waiter struct {
	key  string
	cost int64
	end  time.Time // it must be served by then; zero: whenever

	denial Decision    // the latest, with the whole wait as its RetryAfter
	next   chan action // what to do, for one that stands by

	// Under the lock:
	queue         *waitQueue // nil: it does not stand in one
	before, after *waiter
	standing      bool // by
}

// action is what a waiter does next.
type action uint8

const (
	askNow   action = iota // ask the store
	askLater               // ask it after the time of the denial
	standBy                // wait until others have left
	giveUp                 // it would be served too late
)

// maxTries bounds how many waiters of one queue ask the store at once.
const maxTries = 64

// nearby is the longest answer of a store that is asked for one place in a
// leaky bucket after the other. Of several that ask at once any may be first,
// and has the shorter delay. A more distant store would hold up the queue.
const nearby = time.Millisecond

// notLater is how much later a queue may be served, by those who overtake it,
// before it is looked again who comes too late: each look takes time for each
// waiter.
const notLater = time.Millisecond

// arrive has a waiter stand in the queue of its key, if there is one.
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

// deny says what a waiter does that the store has just denied. late says that
// the store has no turn for it in time.
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
		g.openLocked(w)
	}
	q := w.queue
	if q.first != w {
		w.standing, w.next = true, make(chan action, 1)
		return standBy
	}
	q.denial = d
	q.from = time.Now().Add(wait - l.flow(l.awaited(w.cost)))
	if q.checked.IsZero() || q.from.Before(q.checked) {
		q.checked = q.from
	}
	if q.from.Sub(q.checked) > notLater {
		q.checked = q.from
		q.dropLate(l)
	}
	return askLater
}

// openLocked makes a queue of one waiter.
func (g *waiting) openLocked(w *waiter) {
	if g.queues == nil {
		g.queues = map[string]*waitQueue{}
	}
	q := &waitQueue{}
	g.queues[w.key] = q
	q.push(w)
}

// serve lets a waiter leave that has been charged, by an answer that took so
// long. Those next to it ask the store at once as far as what remains is enough
// for them.
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

// expire lets a waiter leave that stood by until its end.
func (g *waiting) expire(w *waiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if q := w.queue; q != nil {
		w.denial = q.deniedFor(max(time.Until(q.from), time.Microsecond))
		g.removeLocked(w, 0, 1)
	}
}

// leave lets a waiter leave that gives up.
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

// wake has the first waiter ask the store, and those behind it for whose costs
// enough remains, up to so many.
func (q *waitQueue) wake(remaining int64, tries int) {
	for w := q.first; w != nil && tries > 0; w = w.after {
		if w != q.first && w.cost > remaining {
			return
		}
		remaining -= w.cost
		tries--
		w.tell(askNow)
	}
}

// tell says what to do to a waiter that stands by.
func (w *waiter) tell(a action) {
	if w.standing {
		w.standing = false
		w.next <- a // which has room: a waiter stands by once for each
	}
}

// standBy returns what to do, once a waiter is told so, or its end comes. It
// is not told when ctx ends before.
func (g *waiting) standBy(ctx context.Context, w *waiter) (next action, told bool) {
	var end <-chan time.Time
	if deadline, ok := ctx.Deadline(); !w.end.IsZero() && (!ok || w.end.Before(deadline)) {
		timer := time.NewTimer(time.Until(w.end))
		defer timer.Stop()
		end = timer.C
	}
	select {
	case next = <-w.next:
		return next, true
	case <-end:
		g.expire(w)
		return giveUp, true
	case <-ctx.Done():
		return giveUp, false
	}
}

// dropLate has those give up who are served too late.
func (q *waitQueue) dropLate(l *Limiter) {
	costs := int64(0)
	for w := q.first; w != nil; {
		after := w.after
		if w.standing && q.tooLate(l, w, costs+w.cost) {
			q.remove(w)
			w.tell(giveUp)
		} else {
			costs += w.cost
		}
		w = after
	}
}

// tooLate reports whether a waiter would be served after its end, when the
// costs up to its own are these, and keeps the denial that says so.
func (q *waitQueue) tooLate(l *Limiter, w *waiter, costs int64) bool {
	if w.end.IsZero() {
		return false
	}
	at := q.from.Add(l.flow(costs - w.cost + l.awaited(w.cost)))
	if !at.After(w.end) {
		return false
	}
	w.denial = q.deniedFor(max(time.Until(at), time.Microsecond))
	return true
}

func (q *waitQueue) deniedFor(wait time.Duration) Decision {
	d := q.denial
	d.Allowed, d.RetryAfter = false, wait
	return d
}

// flow is how long the only bucket takes for units; 0 where there is none, or
// other limits.
func (l *Limiter) flow(units int64) time.Duration {
	if !l.limit.Valid() || l.limit.n.p == 0 {
		return 0
	}
	if units > maxMicros/microUnits {
		return micros(maxMicros)
	}
	return micros(l.limit.n.emptied(units*microUnits, 0))
}

// awaited is how much of its own cost a waiter waits for: all in a bucket, and
// nothing in a leaky one, where it waits for those before it alone.
func (l *Limiter) awaited(cost int64) int64 {
	if l.shapes {
		return 0
	}
	return cost
}
