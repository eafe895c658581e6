package table

import (
	"runtime"
	"sync"
	"testing"
)

func TestAWaiterGetsTheShard(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, processors := range []int{1, 2, 8} {
		runtime.GOMAXPROCS(processors)
		var s Shard
		var wait sync.WaitGroup
		const workers, turns = 32, 300
		holds := 0
		for range workers {
			wait.Go(func() {
				for turn := range turns {
					switch turn % 3 {
					case 0:
						s.Wait(int64(turn))
					case 1:
						s.LockAt(int64(turn))
					case 2:
						s.Lock()
					}
					if holds++; turn%10 == 0 {
						runtime.Gosched() // makes other goroutines find the shard locked
					}
					s.Unlock()
				}
			})
		}
		wait.Wait()
		if holds != workers*turns {
			t.Errorf("%d processors: %d of %d turns are counted", processors, holds, workers*turns)
		}
	}
}

func TestContentionsNearEachOtherMeanAHotKey(t *testing.T) {
	const contended = 1<<40 + 1<<32 - 3 // its low half overflows soon
	var s Shard
	if s.isHot(contended) {
		t.Error("the shard is hot without a contention")
	}
	s.Wait(contended)
	for after, want := range map[int64]bool{0: true, hotWithin - 1: true, hotWithin: false, -1: false, 1 << 31: false} {
		if s.isHot(contended+after) != want {
			t.Errorf("%d µs after a contention: hot is %t", after, !want)
		}
	}
}
