package nameset

import (
	"sync"
	"sync/atomic"
	"testing"
)

// Of the names that many goroutines bring, exactly Max are accepted, and stay accepted.
func TestSetAcceptsAFixedNumberOfNames(t *testing.T) {
	var s Set[[2]int]
	var accepted atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 2 * Max {
				s.Accepts([2]int{i, 0})
			}
		})
	}
	all.Wait()
	for range 2 {
		for i := range 2 * Max {
			if s.Accepts([2]int{i, 0}) {
				accepted.Add(1)
			}
		}
	}
	if n := accepted.Load(); n != 2*Max {
		t.Errorf("%d accepted in two passes, want %d", n, 2*Max)
	}
}
