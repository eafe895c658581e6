package redisstore

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// batcher carries the calls for one server. While flights are in the air the
// calls that come wait in a queue, and the next flight takes all of them that
// fit into one script call: the busier the server, the more checks share a
// round trip. When nothing is in the air a call leaves at once.
//
// At most maxFlights flights are in the air, whatever the server does, so a
// server that freezes holds at most so many times maxLines claims; a call that
// still waits can leave the queue, and is then certain not to be sent.
type batcher struct {
	sender   sender
	store    *Store
	replicas uint8
	full     atomic.Bool // no flight may leave; written under the lock

	mu struct {
		sync.Mutex

		first, last *call
		waiting     int
		sent        int         // flights in the air, or boarding
		queueing    int         // of them: about to leave with those who wait
		idle        []*inFlight // landed, kept for the next departure
		singles     []*single   // likewise
	}
}

const (
	// maxInFlight in the air: while one is at the server, another is read and
	// written by the client.
	maxInFlight = 2
	// maxLines is how many claims one script call takes, but for a single
	// group that has more: more save no time, and hold up everybody else.
	maxLines = 256
	// worthParting is how many calls are worth two flights.
	worthParting = 16
)

// batchers are those of one server, by the number of replicas that claims ask for,
// so that waiting for replicas holds up nobody else. The zero value is ready.
type batchers [math.MaxUint8 + 1]atomic.Pointer[batcher]

// of returns the lane for a number of replicas.
func (ls *batchers) of(n sender, s *Store, replicas uint8) *batcher {
	if l := ls[replicas].Load(); l != nil {
		return l
	}
	ls[replicas].CompareAndSwap(nil, newBatcher(n, s, replicas))
	return ls[replicas].Load()
}

func newBatcher(n sender, s *Store, replicas uint8) *batcher {
	return &batcher{sender: n, store: s, replicas: replicas}
}

// send has a call leave as soon as a flight may. When one may at once, the
// caller flies it itself where it can: a lone check is not handed around, which
// would take it half as long again.
func (l *batcher) send(ctx context.Context, c *call, itself bool) {
	c.batcher = l
	if !c.keep && ctx.Done() != nil {
		c.ctx = ctx
	}
	l.mu.Lock()
	if l.full.Load() {
		l.pushLocked(c)
		l.mu.Unlock()
		return
	}
	l.countLocked(1, 0)
	f := l.batchLocked()
	c.state = sent
	f.calls = append(f.calls, c)
	l.mu.Unlock()
	if !itself || c.keep || l.replicas > 0 || !patient(ctx) {
		go l.fly(f) //nolint:gosec // not in the caller's context: it carries others
		return
	}
	c.own = true
	f.fly(ctx)
	l.land(f)
	if l.queue(f) {
		go l.fly(f) //nolint:gosec // see above
	}
}

// patience is how much later than it was cancelled a call may end that has a
// deadline too.
const patience = 100 * time.Millisecond

// patient reports whether a caller can wait for a flight of its own: the
// connection notices that a deadline ends, and not a cancel.
func patient(ctx context.Context) bool {
	if ctx.Done() == nil {
		return true
	}
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < patience
}

// fly makes flights for as long as calls wait. The first has boarded.
func (l *batcher) fly(f *inFlight) {
	for more := true; more; more = l.queue(f) {
		f.fly(context.Background())
		l.land(f)
		l.linger()
	}
}

// linger lets those who were answered ask again before the next flight leaves:
// for as long as more do and fit, and no longer. They go with it: a flight of
// their own would take a few, and the server's time for a call.
func (l *batcher) linger() {
	l.announce(1)
	defer l.announce(-1)
	for before, now := -1, l.waiting(); before < now && now < maxLines; before, now = now, l.waiting() {
		runtime.Gosched()
	}
}

// countLocked counts flights in the air and those about to leave.
func (l *batcher) countLocked(aloft, boarding int) {
	l.mu.sent += aloft
	l.mu.queueing += boarding
	l.full.Store(l.mu.sent == maxInFlight || l.mu.queueing > 0)
}

func (l *batcher) announce(boarding int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.countLocked(0, boarding)
}

func (l *batcher) waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.waiting
}

// queue fills a flight with the calls that wait, but for those whose callers
// are about to leave. When none does, the flight is over.
func (l *batcher) queue(f *inFlight) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.first != nil {
		l.queueLocked(f)
	}
	if len(f.calls) == 0 {
		l.countLocked(-1, 0)
		l.mu.idle = append(l.mu.idle, f)
	}
	return len(f.calls) > 0
}

// queueLocked parts many calls between this flight and another, so that the
// server has one to work on while the client reads and writes the other. That
// holds for equal calls too: the server is quick with their one line, and the
// client would wait for it.
func (l *batcher) queueLocked(f *inFlight) {
	if l.mu.sent == maxInFlight || l.mu.waiting < worthParting {
		l.fillLocked(f, maxLines)
		return
	}
	l.fillLocked(f, min(maxLines, l.mu.waiting/2))
	if other := l.batchLocked(); l.fillLocked(other, maxLines) {
		l.countLocked(1, 0)
		go l.fly(other)
	} else {
		l.mu.idle = append(l.mu.idle, other)
	}
}

// fillLocked boards calls while there is room for their claims, and reports
// whether any did.
func (l *batcher) fillLocked(f *inFlight, room int) bool {
	now := time.Now()
	for c := l.mu.first; c != nil; {
		next := c.next
		if c.waits(now) {
			if room -= len(c.claims); room < 0 && len(f.calls) > 0 {
				break
			}
			l.takeLocked(f, c)
		}
		c = next
	}
	return len(f.calls) > 0
}

func (l *batcher) takeLocked(f *inFlight, c *call) {
	l.unlinkLocked(c)
	c.state = sent
	if c.alone {
		c.state = abandoned
	}
	f.calls = append(f.calls, c)
}

// land wakes the callers of a flight, in the order they came.
func (l *batcher) land(f *inFlight) {
	l.mu.Lock()
	for i, c := range f.calls {
		if c.state == abandoned {
			l.store.calls.put(c)
			f.calls[i] = nil
			continue
		}
		c.state = landed
	}
	l.mu.Unlock()
	for _, c := range f.calls {
		if c != nil && !c.own {
			c.done <- struct{}{}
		}
	}
	f.reset()
}

// leave takes a call whose caller gives up out of the queue, or else notes
// that nobody waits for it. It returns what became of the call, and whether the
// server has charged it and replicas are waited for.
func (l *batcher) leave(c *call) (state callState, charged bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.state == queued && c.keep:
		c.alone = true
		return abandoned, false
	case c.state == queued:
		l.unlinkLocked(c)
		l.store.calls.put(c)
		return dropped, false
	case c.state == sent:
		charged = c.charged.Load() // read before the flight may recycle the call
		c.state = abandoned
		return abandoned, charged
	default:
		return landed, false
	}
}

func (l *batcher) batchLocked() *inFlight {
	if n := len(l.mu.idle); n > 0 {
		f := l.mu.idle[n-1]
		l.mu.idle = l.mu.idle[:n-1]
		return f
	}
	return &inFlight{batcher: l, encoding: l.store.encoding}
}

func (l *batcher) pushLocked(c *call) {
	c.prev, c.next = l.mu.last, nil
	if c.prev == nil {
		l.mu.first = c
	} else {
		c.prev.next = c
	}
	l.mu.last = c
	l.mu.waiting++
}

func (l *batcher) unlinkLocked(c *call) {
	if c.prev == nil {
		l.mu.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.mu.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
	l.mu.waiting--
}
