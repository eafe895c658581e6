package table

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkRebuild is the pause of a shard that grows, at its fullest: what
// the slowest of many insertions pays.
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

// BenchmarkInsertAndDelete is a newcomer in a table of a million states.
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
