package burst

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// While the server is busy, all goroutines work before the first of them writes. Now and then
// the runtime prefers one that has yielded, so one of several tries must have this order.
func TestWritesOfABusyServerFollowEachOther(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for name, c := range map[string]struct {
		near time.Duration
		want []string
	}{
		"busy": {time.Hour, []string{"work", "work", "work", "write", "write", "write"}},
		"idle": {0, []string{"work", "write", "work", "write", "work", "write"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for tries := 0; tries < 5 && !slices.Equal(got, c.want); tries++ {
				got = orderOf(c.near)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("the order is %q", got)
			}
		})
	}
}

// orderOf returns the order in which three goroutines work and write.
func orderOf(near time.Duration) (got []string) {
	w := New()
	w.near = int64(near)
	w.Await()
	var mu sync.Mutex
	note := func(event string) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, event)
	}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			note("work")
			w.Await()
			note("write")
		})
	}
	all.Wait()
	return got
}

// A write is near another only within the time for one processor, divided by their number.
func TestNearDependsOnTheProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	if w := New(); w.near != int64(25*time.Microsecond) {
		t.Errorf("near is %v", time.Duration(w.near))
	}
}
