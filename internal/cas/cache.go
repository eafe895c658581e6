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
// nodes write in turn would lose its swaps, and a key that is used once needs no memory. With
// [Options.KeepNew], items that the node has created are kept too. Items
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

// recall takes the item of the round from the cache, and the time of the decision from the
// clock of the server. It returns false if the cache does not have the item, if the item may
// lack writes that the calls need, if the time is not known, or if the server left the last
// call without an answer: a read has no outcome that could stay unknown.
//
// All calls of the round have begun, so each of them is decided at a time after its begin.
func (r *round) recall() bool {
	s := r.store
	if !r.mayRecall() {
		return false
	}
	t := s.transportOf(r.keys[0])
	if !t.up.Load() {
		return false
	}
	it := s.cache.take(r.keys[0])
	if it.Version == 0 {
		return false
	}
	if m, some := it.Memo.(Covering); some && !m.Covers(r.horizon) {
		return false
	}
	r.now = time.Time{}
	if s.options.Clock == nil {
		now, known := t.clock.now()
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
		r.store.cache.put(w.Key, Item{Value: w.Value, Version: w.Written, Memo: w.Memo})
	}
}
