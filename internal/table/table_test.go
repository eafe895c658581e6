package table

import (
	"math/rand/v2"
	"testing"
)

// shares judges by State.Lo: the share left, 0 to 100, where 100 is idle.
type shares struct{}

func (shares) Idle(_ uint32, state State, _ []int64, _ int64) bool { return state.Lo >= 100 }
func (shares) Left(_ uint32, state State, _ []int64, _ int64) int64 {
	return int64(min(state.Lo, 100))
}

func randomID(t *Table, r *rand.Rand) ID {
	return ID{Hash: r.Uint64(), Tag: r.Uint32(), Shard: r.Uint32N(uint32(t.Shards()))}
}

func (t *Table) insert(id ID, state State, now int64) bool {
	s := t.Shard(id.Shard)
	s.Lock()
	defer s.Unlock()
	return s.Insert(id, 1, state, now)
}

func (t *Table) find(id ID) (state State, ok bool) {
	s := t.Shard(id.Shard)
	s.Lock()
	defer s.Unlock()
	slot := s.Find(id)
	if slot == nil {
		return state, false
	}
	return slot.State, true
}

func (t *Table) delete(id ID) {
	s := t.Shard(id.Shard)
	s.Lock()
	defer s.Unlock()
	s.Delete(id)
}

// The table must hold what a map holds, through growth and deletion.
func TestTableAgreesWithMap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, o := range []Options{{Bound: 10_000, Judge: shares{}}, {KeepAll: true, Judge: shares{}}} {
		table := New(o)
		want := map[ID]State{}
		var ids []ID
		for i := range 60_000 {
			switch {
			case len(ids) == 0 || len(want) < 9_000 && r.IntN(3) > 0:
				id := randomID(table, r)
				ids = append(ids, id)
				want[id] = State{Hi: uint64(i)}
				if !table.insert(id, want[id], 0) {
					t.Fatalf("insert %d: no room with %d keys", i, len(want))
				}
			default:
				id := ids[r.IntN(len(ids))]
				table.delete(id)
				delete(want, id)
			}
		}
		for _, id := range ids {
			got, ok := table.find(id)
			if w, there := want[id]; ok != there || got != w {
				t.Fatalf("find %v = %v, %t; want %v, %t", id, got, ok, w, there)
			}
		}
		if got := table.Stats().Keys; got != len(want) || table.held.Load() != int64(got) {
			t.Errorf("keys = %d, held %d, want %d", got, table.held.Load(), len(want))
		}
	}
}
