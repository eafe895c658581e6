package redisstore

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// batcher combines many callers' calls to one server into batches, one round trip
// each. While the maximum of batches is in flight, new calls wait in a queue. The
// next batch takes all queued calls that fit into one script call, so the busier
// the server is, the more checks share a round trip. Below that maximum, and if no
// batch is about to be sent, a call is sent at once.
//
// At most maxInFlight batches are in flight, whatever the server does. A frozen
// server therefore holds at most maxInFlight times maxLines claims. A caller whose
// call is still queued can withdraw it; a withdrawn call is certain not to be sent.
type batcher struct {
	sender   sender
	store    *Store
	replicas uint8
	full     atomic.Bool // a new call must queue; written under mu

	mu struct {
		sync.Mutex

		first, last *call
		waiting     int
		sent        int         // batches in flight or about to be sent
		queueing    int         // of those, the ones about to be sent with the queued calls
		idle        []*inFlight // finished batches, kept for reuse
		singles     []*single   // finished singles, kept for reuse
	}
}

const (
	// maxInFlight is the maximum of batches in flight. With two, the client encodes
	// and decodes one while the server runs the other.
	maxInFlight = 2
	// maxLines is the maximum of claims in one script call, unless a single call
	// has more. A larger batch saves no time and delays other callers.
	maxLines = 256
	// worthParting is the queue length from which the queue is split in two batches.
	worthParting = 16
)

// batchers are the batchers of one server, indexed by the number of replicas that
// claims ask for. Claims that wait for replicas thus do not delay other claims. The
// zero value is ready for use.
type batchers [math.MaxUint8 + 1]atomic.Pointer[batcher]

// of returns the batcher for a number of replicas, and makes it on first use.
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

// send sends a call at once if a batch may be sent, and queues it otherwise. If
// itself is set and the caller can wait for the reply, send does the round trip in
// the caller's goroutine. Handing a lone call to another goroutine would take half
// as long again.
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

// patience bounds how long after its cancellation a call with a deadline may end.
const patience = 100 * time.Millisecond

// patient reports whether a caller may do the round trip in its own goroutine. The
// connection observes a deadline but not a cancellation, so patient returns true
// only if ctx cannot end or if its deadline is less than patience away.
func patient(ctx context.Context) bool {
	if ctx.Done() == nil {
		return true
	}
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < patience
}

// fly sends f, which already has its calls, and then batches of queued calls until
// the queue is empty.
func (l *batcher) fly(f *inFlight) {
	for more := true; more; more = l.queue(f) {
		f.fly(context.Background())
		l.land(f)
		l.linger()
	}
}

// linger lets callers that were just answered send their next call before the next
// batch is taken from the queue. It yields the processor while the queue still
// grows and the batch has room. Without it the first callers to come back would
// fill a small batch of their own, which costs the server as much time per script
// call as a large one. While linger runs, new calls queue.
func (l *batcher) linger() {
	l.announce(1)
	defer l.announce(-1)
	for before, now := -1, l.waiting(); before < now && now < maxLines; before, now = now, l.waiting() {
		runtime.Gosched()
	}
}

// countLocked adds to the number of batches in flight and to the number of those
// about to be sent with the queued calls, and updates full.
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

// queue fills f with queued calls, except those whose context has ended. It returns
// false if f stays empty; f is then idle.
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

// queueLocked fills f from the queue. If the queue is long and another batch may be
// sent, it splits the calls between f and that batch, so that the server runs one
// while the client encodes and decodes the other. Splitting helps equal calls too,
// although they share one line: the server is fast with that line, and the client
// would otherwise wait for it.
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

// fillLocked moves queued calls to f while there is room for their claims, and
// reports whether f has any call. The first call always fits.
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

// land wakes the callers of a batch in the order in which they came, recycles
// abandoned calls and resets the batch.
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

// leave is called when the caller of c gives up. It removes a queued call from the
// queue, unless the call must be sent anyway, and marks any other unfinished call as
// abandoned. It returns the call's state, and whether the server has charged the
// call and only the wait for replicas is left.
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
		charged = c.charged.Load() // read before the batch may recycle the call
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
