package table

import (
	"runtime"
	"sync"
	"testing"
)

func TestWhoWaitsForAShardGetsIt(t *testing.T) {
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
						runtime.Gosched() // others find it locked for long
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

func TestMeetingsNearEachOtherTellOfAHotKey(t *testing.T) {
	const met = 1<<40 + 1<<32 - 3 // soon after it the low half begins anew
	var s Shard
	if s.isHot(met) {
		t.Error("nobody has met, and it is hot")
	}
	s.Wait(met)
	for after, want := range map[int64]bool{0: true, justMet - 1: true, justMet: false, -1: false, 1 << 31: false} {
		if s.isHot(met+after) != want {
			t.Errorf("%d µs after two have met: hot is %t", after, !want)
		}
	}
}
