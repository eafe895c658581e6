package remotestore

import (
	"context"
	"runtime"
	"sync"
)

// batcher carries the calls to the server. While flights are in the air the calls
// that come wait, and the next flight takes all of them that fit: the busier
// the server, the more claims share a round trip. When a flight may leave, a
// call leaves at once.
type batcher struct {
	store *Store

	mu struct {
		sync.Mutex

		waiting  []*call
		sent     int         // flights in the air, or boarding
		queueing int         // of them: about to leave with those who wait
		idle     []*inFlight // landed, kept for the next departure
	}
}

// maxInFlight in the air: while one is at the server, another is written and
// read here.
const maxInFlight = 2

// state is where a call is.
type state uint8

const (
	waits state = iota
	flies
	left // its caller did not wait for it
)

// carry has the server decide a call. On an error of its own the call belongs
// to nobody; those of its groups are in the call.
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
		go l.fly(f) //nolint:gosec // not in the caller's context: it carries others
	}
	if err != nil && ctx.Err() != nil {
		return endedSent(ctx)
	}
	return err
}

// depart returns a flight that the caller flies itself, for a lone claim is
// not handed around; nil when the call has to wait.
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

// await waits for a call that others carry.
func (l *batcher) await(ctx context.Context, c *call) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return l.leave(ctx, c)
	}
}

// leave gives a call up.
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

// fly makes flights for as long as calls wait. The first has boarded.
func (l *batcher) fly(f *inFlight) {
	for more := true; more; more = l.queue(f) {
		f.fly(context.Background())
		l.land(f)
		l.linger()
	}
}

// land lets those go who were carried.
func (l *batcher) land(f *inFlight) {
	for _, c := range f.calls {
		c.done <- struct{}{}
	}
	clear(f.calls)
	f.calls = f.calls[:0]
}

// linger lets those who were answered ask again before the next flight leaves,
// for as long as more do and fit: they go with it.
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

// queue fills a flight with calls that wait. When none does, it is over.
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

// dropLocked takes the first n out of those who wait.
func (l *batcher) dropLocked(n int) {
	rest := copy(l.mu.waiting, l.mu.waiting[n:])
	clear(l.mu.waiting[rest:])
	l.mu.waiting = l.mu.waiting[:rest]
}
