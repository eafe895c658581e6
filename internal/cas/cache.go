package cas

import (
	"hash/maphash"
	"sync"
	"time"
)

// cache remembers the items that this node wrote last, so that the next round of a key need
// not read what its node has just written.
//
// A round that finds its item here decides on it and swaps at once. The swap compares
// versions, so it is made only if the item is still the current one; it is lost
// otherwise, and the round reads the item and decides again. A round that would write
// nothing has no swap to confirm the item, so it reads the item and decides again too: no
// caller is denied by an item that may be old.
//
// An item leaves the cache when a round takes it, and comes back when that round has
// written it. Only items whose writer before was this node too are kept: a key that several
// nodes write in turn would lose its swaps, and a key that is used once needs no memory. Items
// of limits that callers bring are never kept, so the keys that callers make up displace
// nothing here.
//
// The cache has a bound in bytes. It has two generations: when the younger one has half of
// the bytes, it becomes the older one, and what was the older one is dropped.
type cache struct {
	seed   maphash.Seed
	shards [cacheShards]struct {
		mu           sync.Mutex
		young, older map[string]Item // guarded by mu
		bytes        int             // guarded by mu: of the younger generation
	}
}

const (
	cacheShards = 64
	// mostCached bounds the bytes of a cache.
	mostCached = 64 << 20
	// cacheEntry is the memory of an item beside its key and value.
	cacheEntry = 128
)

func newCache() *cache { return &cache{seed: maphash.MakeSeed()} }

// take removes the item of a key and returns it. The version is 0 if there is none.
func (c *cache) take(key string) (item Item) {
	sh := &c.shards[maphash.String(c.seed, key)%cacheShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if item = sh.young[key]; item.Version != 0 {
		delete(sh.young, key)
		sh.bytes -= bytesCached(key, item)
		return item
	}
	item = sh.older[key]
	delete(sh.older, key)
	return item
}

// put adds an item. The value must not change any more.
func (c *cache) put(key string, item Item) {
	sh := &c.shards[maphash.String(c.seed, key)%cacheShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.bytes += bytesCached(key, item) - bytesCached(key, sh.young[key]); sh.bytes > mostCached/cacheShards/2 {
		sh.older, sh.young, sh.bytes = sh.young, nil, bytesCached(key, item)
	}
	if sh.young == nil {
		sh.young = map[string]Item{}
	}
	delete(sh.older, key)
	sh.young[key] = item
}

func bytesCached(key string, item Item) int {
	if item.Version == 0 {
		return 0
	}
	return cacheEntry + len(key) + len(item.Value)
}

// recall takes the item of the round from the cache. It returns false if the cache does
// not have it, or if the time of the server is not known.
func (r *round) recall() bool {
	s := r.store
	if !r.mayRecall() {
		return false
	}
	it := s.cache.take(r.keys[0])
	if it.Version == 0 {
		return false
	}
	if s.options.Clock == nil {
		now, known := s.transportOf(r.keys[0]).clock.now()
		if !known {
			return false
		}
		r.now = now
	}
	r.values = []loaded{{Item: it}}
	r.values[0].decode()
	r.recalled = true
	return true
}

// mayRecall reports whether the cache may have the item of the round.
func (r *round) mayRecall() bool { return len(r.keys) == 1 && !fromCaller(r.keys[0]) }

// remember puts the item that the round has written into the cache.
func (r *round) remember() {
	if w := &r.swaps[0]; len(r.swaps) == 1 && w.Keep && w.Written != 0 {
		r.store.cache.put(w.Key, Item{Value: w.Value, Version: w.Written})
	}
}

// serverClock tells the time of a server between its answers, for rounds whose item is in
// the cache. A decision must not be made at a time that the server has not reached, because
// it would count what refills until then. So the clock adds less to the time in an
// answer than the time since that answer: the time it tells is behind that of the server by
// the way of the answer and an eighth of the time since then, and by maxLag at most. A
// round reads its item if the last answer is older. An eighth is more than the rate at
// which time services adjust a clock (chrony: 1/12).
//
// A clock that is set back is noticed after maxLag; until then, a decision is at most as
// early as the clock was set back, as with any reading of that clock.
type serverClock struct {
	mu     sync.Mutex
	none   bool   // guarded by mu: the server has no clock
	sample sample // guarded by mu: the one that tells the latest time
}

// sample is a time that the server told in an answer.
type sample struct{ sent, answered, server time.Time }

// maxLag is how far a serverClock may be behind.
const maxLag = 20 * time.Millisecond

// learn notes the time in an answer, or the zero time if the server has no clock.
func (c *serverClock) learn(sent, answered, server time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.none = server.IsZero(); c.none {
		return
	}
	if known, ok := c.sample.at(answered); !ok || !server.Before(known) {
		c.sample = sample{sent, answered, server}
	}
}

// now returns a time that the server has reached, or the zero time if it has no clock. It
// returns false if the last answer is too old.
func (c *serverClock) now() (server time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.none {
		return server, true
	}
	return c.sample.at(time.Now())
}

func (s *sample) at(now time.Time) (server time.Time, ok bool) {
	if s.server.IsZero() || now.Sub(s.sent) > maxLag {
		return server, false
	}
	since := max(now.Sub(s.answered), 0)
	return s.server.Add(since - since/8), true
}
