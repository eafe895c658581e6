package cas

import (
	"hash/maphash"
	"runtime"
	"slices"
	"sync"
)

// A lane is the calls of this node on one item. At most one round of a lane is under way,
// so the callers of a node never compete with each other for a version. A call that finds
// the lane free runs a round by itself, in its goroutine. Calls that arrive in the
// meantime wait, and the next round decides them together: one load and one swap for all
// of them, however many there are.
//
// Groups across identities have one lane, whose rounds decide up to a batch of items in
// one transaction. Those with limits that callers bring have another one, so that wide
// groups of callers do not hold up the rules.
type lane struct {
	key string

	queue []*call // guarded by the lock of the lanes
}

// lanes are the lanes that are in use.
type lanes struct {
	seed   maphash.Seed
	shards [64]struct {
		mu    sync.Mutex
		lanes map[string]*lane // guarded by mu
		_     [40]byte         // keeps the locks on cache lines of their own
	}
}

// maxRound is the greatest number of claims in a round, unless one call has more.
const maxRound = 512

// The keys of the lanes of groups across identities. No item has such a key.
const (
	acrossLane       = ""
	acrossLaneCaller = "caller"
)

func newLanes() *lanes {
	l := &lanes{seed: maphash.MakeSeed()}
	for i := range l.shards {
		l.shards[i].lanes = map[string]*lane{}
	}
	return l
}

func (l *lanes) lock(key string) (mu *sync.Mutex, lanes map[string]*lane) {
	sh := &l.shards[maphash.String(l.seed, key)%uint64(len(l.shards))]
	sh.mu.Lock()
	return &sh.mu, sh.lanes
}

// take decides a call in its lane, and returns when it is decided or its context has
// ended.
func (s *Store) take(c *call) error {
	key := c.lane()
	mu, lanes := s.lanes.lock(key)
	l := lanes[key]
	if l == nil {
		l = &lane{key: key}
		lanes[key] = l
		mu.Unlock()
		defer s.release(l) // also if an observer panics
		r := s.newRound(l, c)
		r.run(c.ctx)
		r.release()
		return c.err
	}
	c.done = make(chan struct{}, 1)
	l.queue = append(l.queue, c)
	mu.Unlock()
	return s.await(l, c)
}

// await waits for the round of another goroutine.
func (s *Store) await(l *lane, c *call) error {
	stop := c.ctx.Done()
	if stop == nil { // a plain receive is cheaper
		<-c.done
		return c.err
	}
	select {
	case <-c.done:
		return c.err
	case <-stop:
	}
	mu, _ := s.lanes.lock(l.key)
	defer mu.Unlock()
	if c.round == nil {
		l.queue = slices.DeleteFunc(l.queue, func(other *call) bool { return other == c })
		return ended(c.ctx, nil, false)
	}
	select {
	case <-c.done:
		return c.err
	default:
		return ended(c.ctx, c.round, c.leave())
	}
}

// release runs the rounds of the calls that wait, in a goroutine of its own, or frees the
// lane.
func (s *Store) release(l *lane) {
	if r := s.nextRound(l); r != nil {
		go func() {
			for ; r != nil; r = s.nextRound(l) {
				r.runForAll()
				for _, c := range r.all {
					c.done <- struct{}{}
				}
				s.gather(l)
			}
		}()
	}
}

// gather yields the processor while calls arrive, so that callers that were just answered
// can have their next calls in the next round. Without it, the first of them would have a
// round of its own, and the others would wait for it.
func (s *Store) gather(l *lane) {
	for before, now := -1, s.queued(l); before < now && now < maxRound; before, now = now, s.queued(l) {
		runtime.Gosched()
	}
}

func (s *Store) queued(l *lane) int {
	mu, _ := s.lanes.lock(l.key)
	defer mu.Unlock()
	return len(l.queue)
}

// nextRound returns a round of the calls that wait. If there are none, it frees the lane
// and returns nil.
func (s *Store) nextRound(l *lane) *round {
	mu, lanes := s.lanes.lock(l.key)
	defer mu.Unlock()
	if len(l.queue) == 0 {
		delete(lanes, l.key)
		return nil
	}
	n := s.fitting(l.queue)
	r := s.newRound(l, l.queue[:n]...)
	for _, c := range r.all {
		c.round = r
	}
	l.queue = slices.Delete(l.queue, 0, n)
	return r
}

// fitting returns how many of the calls fit into one round, at least 1.
func (s *Store) fitting(calls []*call) int {
	claims, keys := 0, map[string]bool{}
	for i, c := range calls {
		claims += c.claims
		if len(c.keys) > 1 || len(keys) > 0 {
			for _, k := range c.keys {
				keys[k] = true
			}
		}
		alone := len(c.keys) > 1 && s.decidesAlone(c.once)
		switch {
		case i > 0 && (alone || claims > maxRound || len(keys) > s.options.MaxBatch):
			return i
		case alone:
			return 1
		}
	}
	return len(calls)
}
