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
// written it; its key stays in the meantime, which spares the maps two changes. Only items
// whose writer before was this node too are kept: a key that several nodes write in turn would
// lose its swaps, and a key that is used once needs no memory. With [Options.KeepNew], items that the node has created are kept too, and with [Options.KeepNewAlone]
// they are while it is the only node. Items
// of limits that callers bring are never kept, so the keys that callers make up displace
// nothing here.
//
// The cache has a bound in bytes. It has two generations: when the younger one has half of
// the bytes, it becomes the older one, and what was the older one is dropped.
type cache struct {
	seed   maphash.Seed
	shards [cacheShards]struct {
		mu           sync.Mutex
		young, older map[string]*Item // guarded by mu, as what they point to; version 0: a round has the item
		bytes        int              // guarded by mu: of the younger generation
	}
}

const (
	cacheShards = 64
	// mostCached bounds the bytes of a cache.
	mostCached = 64 << 20
	// cacheEntry is the memory of an item beside its key and value.
	cacheEntry = 128
	// memoCached is the memory of a memo beside what grows with the value.
	memoCached = 256
)

func newCache() *cache { return &cache{seed: maphash.MakeSeed()} }

// take removes the item of a key and returns it. The version is 0 if there is none.
func (c *cache) take(key string) (item Item) {
	sh := &c.shards[maphash.String(c.seed, key)%cacheShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	entry := sh.young[key]
	if entry != nil {
		sh.bytes -= valueCached(entry)
	} else if entry = sh.older[key]; entry == nil {
		return item
	}
	item, *entry = *entry, Item{}
	return item
}

// put adds an item. The value must not change any more.
func (c *cache) put(key string, item Item) {
	sh := &c.shards[maphash.String(c.seed, key)%cacheShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	entry, growth := sh.young[key], bytesCached(key, &item)
	if entry != nil {
		growth = valueCached(&item) - valueCached(entry)
	}
	if sh.bytes+growth > mostCached/cacheShards/2 {
		sh.older, sh.young, sh.bytes = sh.young, nil, 0
		entry, growth = nil, bytesCached(key, &item)
	}
	if sh.young == nil {
		sh.young = map[string]*Item{}
	}
	if entry == nil {
		delete(sh.older, key)
		entry = &Item{}
		sh.young[key] = entry
	}
	sh.bytes += growth
	*entry = item
}

func bytesCached(key string, item *Item) int {
	return cacheEntry + len(key) + valueCached(item)
}

// valueCached returns the memory of an item that changes with its value. The memo may have a text of
// each state of it.
func valueCached(item *Item) int {
	if item.Memo == nil {
		return len(item.Value)
	}
	return memoCached + 2*len(item.Value)
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
	if m, some := it.Memo.(Covering); some && !m.Covers(horizonOf(r.all)) {
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
	r.values = append(r.values[:0], loaded{Item: it})
	r.values[0].decode()
	r.recalled = true
	return true
}

// keepsNew reports whether the cache keeps items that the node has created.
func (s *Store) keepsNew() bool {
	return s.options.KeepNew || s.options.KeepNewAlone && s.heartbeat.alone.Load()
}

// mayRecall reports whether the cache may have the item of the round.
func (r *round) mayRecall() bool { return len(r.keys) == 1 && !fromCaller(r.keys[0]) }

// remember puts the item that the round has written into the cache.
func (r *round) remember() {
	if w := &r.swaps[0]; len(r.swaps) == 1 && w.Keep && w.Written != 0 {
		r.store.cache.put(w.Key, Item{Value: w.Value, Version: w.Written, Memo: w.Memo})
	}
}
