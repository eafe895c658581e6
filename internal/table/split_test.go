package table

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
)

// stray returns a state of the table that probing would not find, if any.
func (t *Table) stray() (Slot, bool) {
	for i := range t.shards {
		s := &t.shards[i]
		if s.slots == nil {
			continue
		}
		for _, slot := range s.all() {
			id := ID{Hash: slot.hash, Rest: uint64(slot.tag)}
			if slot.ref != 0 && (t.Shard(id) != s || s.Find(id) == nil) {
				return slot, true
			}
		}
	}
	return Slot{}, false
}

func (t *Table) shardsOpen() (n int) {
	for i := range t.shards {
		if t.shards[i].slots != nil {
			n++
		}
	}
	return n
}

// newSmall returns a table with as few shards at first as on a machine with two processors, so that
// its shards split on every machine.
func newSmall(o Options) *Table {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	return New(o)
}

func TestGrowingTableSplitsItsShardsAndLosesNoState(t *testing.T) {
	fourth := 200_000
	if testing.Short() {
		fourth = 40_000
	}
	table := newSmall(Options{Bound: 10 * fourth, Judge: shares{}})
	if table.shardsOpen() >= len(table.shards)/2 {
		t.Fatalf("%d of %d shards are open at the start", table.shardsOpen(), len(table.shards))
	}
	for keys, ids := 0, []ID(nil); keys < 4*fourth; keys += fourth {
		ids = append(ids, fill(t, table, fourth, uint64(keys))...)
		for _, id := range ids {
			if _, ok := table.find(id); !ok {
				t.Fatalf("after %d keys one is lost", len(ids))
			}
		}
		if s := table.Stats(); s.Keys != len(ids) || table.held.Load() != int64(len(ids)) || s.Evictions != 0 {
			t.Fatalf("%+v, held %d; want %d keys", s, table.held.Load(), len(ids))
		}
		if slot, ok := table.stray(); ok {
			t.Fatalf("after %d keys %v is in the wrong shard", len(ids), slot)
		}
	}
	if table.shardsOpen() != len(table.shards) {
		t.Errorf("%d of %d shards are open at the end", table.shardsOpen(), len(table.shards))
	}
}

// Callers cannot choose identities, but by chance one shard may be split twice
// before another is split once.
func TestShardsMayBePartedUnequally(t *testing.T) {
	table := newSmall(Options{Bound: 2_000_000, Judge: shares{}})
	r := rand.New(rand.NewPCG(7, 8))
	first := uint64(table.shards[0].mask)
	for shard, keys := range []int{10_000, splitKeys + 1} {
		for range keys {
			id := randomID(r)
			id.Rest = id.Rest&^first | uint64(shard)
			table.insert(id, State{}, 0)
		}
	}
	if deep, shallow := table.shards[0].mask, table.shards[1].mask; deep <= shallow || uint64(shallow) <= first {
		t.Fatalf("masks %#x and %#x, at first %#x", deep, shallow, first)
	}
	if slot, ok := table.stray(); ok {
		t.Errorf("%v is in the wrong shard", slot)
	}
}

func TestWideStatesGoWithTheirShard(t *testing.T) {
	table := newSmall(Options{Bound: 1_000_000, Judge: shares{}})
	r := rand.New(rand.NewPCG(5, 6))
	ids := make([]ID, 100_000)
	for i := range ids {
		ids[i] = randomID(r)
		if i%3 > 0 {
			table.insert(ids[i], State{Hi: uint64(i)}, 0)
			continue
		}
		s := table.lock(ids[i])
		slot, _ := s.Widen(ids[i], 1, 4, 0)
		s.SetWide(slot, []int64{int64(i)})
		s.Release(0)
	}
	weight := 0
	for i, id := range ids {
		s := table.lock(id)
		slot := s.Find(id)
		if wide := s.Wide(slot); slot == nil || i%3 == 0 && (len(wide) != 1 || wide[0] != int64(i)) || i%3 > 0 && wide != nil {
			t.Fatalf("state %d: %v beside %v", i, wide, slot)
		}
		s.Unlock()
	}
	for i := range table.shards {
		if w := table.shards[i].wides; w != nil {
			weight += w.weight
		}
	}
	if int64(weight+len(ids)) != table.held.Load() {
		t.Errorf("%d states and slices of weight %d, held %d", len(ids), weight, table.held.Load())
	}
}

// A goroutine that waits for a shard during a split still finds its state.
func TestShardsArePartedUnderTheEyesOfMany(t *testing.T) {
	table := newSmall(Options{Bound: 2_000_000, Judge: shares{}})
	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 1))
			var own []ID
			for range 60_000 {
				id := randomID(r)
				own = append(own, id)
				table.insert(id, State{Hi: id.Hash}, 0)
				old := own[r.IntN(len(own))]
				if state, ok := table.find(old); !ok || state.Hi != old.Hash {
					t.Errorf("worker %d lost a state", worker)
					return
				}
			}
		})
	}
	wait.Wait()
	if got := table.Stats().Keys; got != 240_000 {
		t.Errorf("%d keys", got)
	}
}

// The weight stays correct when one goroutine clears a table while others fill
// it, split its shards and add wide states.
func TestClearingATableThatIsBeingFilledKeepsItsWeight(t *testing.T) {
	table := newSmall(Options{Bound: 2_000_000, Judge: shares{}})
	var wait sync.WaitGroup
	for worker := range 3 {
		wait.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 2))
			for i := range 60_000 {
				id := randomID(r)
				id.Rest &^= 1<<8 - 1 // one shard, which is parted before the next Clear
				if i%5000 == 4999 {
					table.Clear()
				}
				if i%8 > 0 {
					table.insert(id, State{Lo: 50}, 0)
					continue
				}
				s := table.lock(id)
				s.Widen(id, 1, 5, 0)
				s.Release(0)
			}
		})
	}
	wait.Wait()
	if slot, ok := table.stray(); ok {
		t.Errorf("%v is in the wrong shard", slot)
	}
	keys, weight := table.Stats().Keys, 0
	for i := range table.shards {
		if w := table.shards[i].wides; w != nil {
			weight += w.weight
		}
	}
	if held := table.held.Load(); held != int64(keys+weight) {
		t.Errorf("%d states and slices of weight %d, held %d", keys, weight, held)
	}
	if table.Clear(); table.held.Load() != 0 || table.Stats().Keys != 0 {
		t.Errorf("cleared, it holds %d, %d keys", table.held.Load(), table.Stats().Keys)
	}
}
