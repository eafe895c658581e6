package table

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkRebuild measures the pause of a full shard that grows, which is the
// latency of the slowest insertion.
func BenchmarkRebuild(b *testing.B) {
	t := New(Options{Bound: keysPerShard, Judge: shares{}})
	r := rand.New(rand.NewPCG(1, 2))
	for range keysPerShard {
		t.insert(randomID(r), State{Lo: 50}, 0)
	}
	s := t.Shard(ID{})
	for b.Loop() {
		s.rebuild(0)
	}
}

// BenchmarkInsertAndDelete adds and removes a key in a table of a million states.
func BenchmarkInsertAndDelete(b *testing.B) {
	t := New(Options{Bound: 2_000_000, Judge: shares{}})
	r := rand.New(rand.NewPCG(1, 2))
	for range 1_000_000 {
		t.insert(randomID(r), State{Lo: 50}, 0)
	}
	for b.Loop() {
		id := randomID(r)
		t.insert(id, State{Lo: 50}, 0)
		t.delete(id)
	}
}
