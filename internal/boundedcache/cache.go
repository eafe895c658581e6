// Package boundedcache is a cache of bounded size for values that are cheap to keep and
// costly to make, such as the compiled limits of requests.
//
// Most callers send the same few keys, but any caller may send a new key with every
// request. So the cache must not grow with the number of keys, and a flood of new keys
// must cost other callers little. A full cache evicts one arbitrary entry for each new
// one. It keeps no order of use: a hit would have to write, and an entry that is in use
// is soon cached again. Keys of different trust belong in caches of their own, so that
// one caller's flood evicts no other's entries.
package boundedcache

import "sync"

// Cache is a map of at most a given number of entries. Make it with [New]. It is safe for
// concurrent use; hits run in parallel.
type Cache[K comparable, V any] struct {
	bound int

	mu  sync.RWMutex
	all map[K]V
}

// New returns an empty cache of at most bound entries.
func New[K comparable, V any](bound int) *Cache[K, V] {
	return &Cache[K, V]{bound: bound, all: map[K]V{}}
}

// Get returns the value of a key, and whether it is cached.
func (c *Cache[K, V]) Get(k K) (V, bool) {
	c.mu.RLock()
	v, ok := c.all[k]
	c.mu.RUnlock()
	return v, ok
}

// GetText is Get for a text in bytes. It allocates no string.
func GetText[V any](c *Cache[string, V], k []byte) (V, bool) {
	c.mu.RLock()
	v, ok := c.all[string(k)]
	c.mu.RUnlock()
	return v, ok
}

// Put caches a value. A key that is cached already evicts no entry: many callers may miss
// one key at the same time, and each of them puts it.
func (c *Cache[K, V]) Put(k K, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, cached := c.all[k]; !cached && len(c.all) >= c.bound {
		for other := range c.all {
			delete(c.all, other)
			break
		}
	}
	c.all[k] = v
}

// Len returns the number of entries.
func (c *Cache[K, V]) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.all)
}
