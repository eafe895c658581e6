package boundedcache

import (
	"sync"
	"testing"
)

func TestCacheIsBounded(t *testing.T) {
	c := New[int, int](10)
	for i := range 100 {
		c.Put(i, -i)
		if v, ok := c.Get(i); !ok || v != -i {
			t.Fatalf("key %d: %d, %v", i, v, ok)
		}
	}
	if n := c.Len(); n != 10 {
		t.Errorf("%d entries, want 10", n)
	}
	for i := range 100 {
		if v, ok := c.Get(i); ok && v != -i {
			t.Errorf("key %d: %d", i, v)
		}
	}
}

func TestPutOfACachedKeyEvictsNothing(t *testing.T) {
	c := New[int, int](10)
	for i := range 10 {
		c.Put(i, i)
	}
	for range 100 {
		c.Put(7, 70)
	}
	if v, _ := c.Get(7); v != 70 || c.Len() != 10 {
		t.Errorf("%d, %d entries are left of 10", v, c.Len())
	}
}

func TestCacheIsSafeForConcurrentUse(t *testing.T) {
	c := New[int, int](4)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 1000 {
				if v, ok := c.Get(i % 8); ok && v != i%8 {
					t.Errorf("key %d: %d", i%8, v)
				}
				c.Put((g+i)%8, (g+i)%8)
			}
		})
	}
	all.Wait()
}

func TestGetTextAllocatesNothing(t *testing.T) {
	c := New[string, int](4)
	text := make([]byte, 100) // longer than the strings that the compiler keeps on the stack
	c.Put(string(text), 7)
	if n := testing.AllocsPerRun(100, func() {
		if v, ok := GetText(c, text); !ok || v != 7 {
			t.Error(v, ok)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
