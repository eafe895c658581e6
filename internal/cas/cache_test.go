package cas

import (
	"fmt"
	"testing"
)

// A flood of keys stays within the bound, and displaces no key that is written again and
// again.
func TestCacheIsBounded(t *testing.T) {
	c := newCache()
	value := make([]byte, 200)
	for i := range 1_000_000 {
		c.put(fmt.Sprint("flood", i), Item{Value: value, Version: 1})
		if i%1000 == 0 {
			if it := c.take("busy"); i > 0 && it.Version != uint64(i) {
				t.Fatalf("after %d keys the busy one has version %d", i, it.Version)
			}
			c.put("busy", Item{Value: value, Version: uint64(i + 1000)})
		}
	}
	checkBytes(t, c)
}

// Values that grow stay within the bound too.
func TestCacheOfGrowingValuesIsBounded(t *testing.T) {
	c := newCache()
	for _, size := range []int{10, 1000} {
		for i := range 200_000 {
			key := fmt.Sprint("k", i)
			c.take(key)
			c.put(key, Item{Value: make([]byte, size), Version: uint64(size)})
		}
	}
	checkBytes(t, c)
}

// checkBytes checks the bytes of a cache that has been filled.
func checkBytes(t *testing.T, c *cache) {
	t.Helper()
	bytes := 0
	for i := range c.shards {
		sh := &c.shards[i]
		young := 0
		for key, item := range sh.young {
			young += bytesCached(key, item)
		}
		if young != sh.bytes {
			t.Errorf("%d bytes are counted as %d", young, sh.bytes)
		}
		for key, item := range sh.older {
			bytes += bytesCached(key, item)
		}
		bytes += young
	}
	if bytes > mostCached || bytes < mostCached/2 {
		t.Errorf("the cache has %d bytes, of %d", bytes, mostCached)
	}
}

func TestCacheHandsOutAnItemOnce(t *testing.T) {
	c := newCache()
	for version := uint64(1); version < 4; version++ {
		c.put("k", Item{Value: []byte("v"), Version: version})
	}
	if it := c.take("k"); it.Version != 3 {
		t.Errorf("version %d", it.Version)
	}
	if it := c.take("k"); it.Version != 0 {
		t.Errorf("taken twice: version %d", it.Version)
	}
}
