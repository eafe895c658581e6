package cas

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
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

// A clock of a server runs at another rate, and answers take any time: the time that a node
// tells is never ahead of it, and behind it by a bound.
func TestServerClockIsNeverAhead(t *testing.T) {
	for _, rate := range []float64{0.9, 1, 1.1} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			server := func() time.Time {
				return time.Unix(1e9, 0).Add(time.Duration(rate * float64(time.Since(begun))))
			}
			random, told := rand.New(rand.NewPCG(1, 2)), 0
			var c serverClock
			for range 10_000 {
				wait := func() { time.Sleep(time.Duration(random.Int64N(int64(12 * time.Millisecond)))) }
				sent := time.Now()
				wait()
				at := server()
				wait()
				c.learn(sent, time.Now(), at)
				wait()
				now, ok := c.now()
				if !ok {
					continue
				}
				told++
				if lag := server().Sub(now); lag < 0 || lag > maxLag*11/10 {
					t.Fatalf("at rate %v the clock is behind by %v", rate, lag)
				}
			}
			if told < 1000 {
				t.Errorf("the clock told the time %d times", told)
			}
			time.Sleep(maxLag)
			if _, ok := c.now(); ok {
				t.Error("an old answer is used")
			}
		})
	}
}

func TestServerWithoutAClock(t *testing.T) {
	var c serverClock
	if _, ok := c.now(); ok {
		t.Error("a time is told before the first answer")
	}
	c.learn(time.Now(), time.Now(), time.Time{})
	if now, ok := c.now(); !ok || !now.IsZero() {
		t.Errorf("%v %v", now, ok)
	}
}
