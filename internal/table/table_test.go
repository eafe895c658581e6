package table

import (
	"math"
	"math/rand/v2"
	"testing"
)

// shares is a Judge by State.Lo: the percentage left, where 100 is idle.
type shares struct{}

func (shares) Idle(_ uint32, state State, _ []int64, _ int64) bool { return state.Lo >= 100 }
func (shares) Left(_ uint32, state State, _ []int64, _ int64) int64 {
	return int64(min(state.Lo, 100))
}
func (shares) Dropped(uint32) {}

func randomID(r *rand.Rand) ID {
	return ID{Hash: r.Uint64(), Rest: r.Uint64()}
}

func (t *Table) lock(id ID) *Shard {
	s := t.Shard(id)
	s.Lock()
	return t.Relock(s, id)
}

func (t *Table) insert(id ID, state State, now int64) bool {
	s := t.lock(id)
	defer s.Release(now)
	return s.Insert(id, 1, state, now)
}

func (t *Table) find(id ID) (state State, ok bool) {
	s := t.lock(id)
	defer s.Unlock()
	slot := s.Find(id)
	if slot == nil {
		return state, false
	}
	return slot.State, true
}

func (t *Table) delete(id ID) {
	s := t.lock(id)
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
				id := randomID(r)
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

// fill inserts n states that are half used.
func fill(t *testing.T, table *Table, n int, seed uint64) (ids []ID) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, seed))
	for i := range n {
		id := randomID(r)
		if !table.insert(id, State{Hi: uint64(i), Lo: 50}, 0) {
			t.Fatalf("no room for state %d", i)
		}
		ids = append(ids, id)
	}
	return ids
}

func TestEveryKeyWithinTheBoundHasRoom(t *testing.T) {
	for _, bound := range []int{1, 2, 3, 50, 64, 1000, 3000, 100_000} {
		table := New(Options{Bound: bound, Judge: shares{}})
		ids := fill(t, table, bound, 4)
		if s := table.Stats(); s.Keys != bound || s.Evictions != 0 || s.Full {
			t.Errorf("bound %d: %+v", bound, s)
		}
		for i, id := range ids {
			if state, ok := table.find(id); !ok || state.Hi != uint64(i) {
				t.Fatalf("bound %d: state %d = %v, %t", bound, i, state, ok)
			}
		}
	}
}

func TestFullTableGivesUpTheStateWithTheMostLeft(t *testing.T) {
	table := New(Options{Bound: 10, Judge: shares{}})
	r := rand.New(rand.NewPCG(5, 6))
	var ids []ID
	for left := range uint64(10) {
		id := randomID(r)
		id.Hash = left << 32 // in the first slots, where all are candidates
		ids = append(ids, id)
		table.insert(id, State{Lo: left}, 0)
	}
	for newcomers := range 9 {
		if !table.insert(ID{Hash: uint64(newcomers) << 16, Rest: 1}, State{}, 0) {
			t.Fatalf("no room for newcomer %d", newcomers)
		}
		if _, ok := table.find(ids[9-newcomers]); ok {
			t.Errorf("newcomer %d did not take the place of the one with %d left", newcomers, 9-newcomers)
		}
	}
	if table.insert(ID{Hash: 1, Rest: 2}, State{}, 0) {
		t.Errorf("an exhausted state was given up")
	}
	if s := table.Stats(); s != (Stats{Keys: 10, Evictions: 9, Unstored: 1, Full: true}) {
		t.Errorf("%+v", s)
	}
}

// A few wide states can fill the weight of a shard whose many slots are mostly
// empty. An eviction finds a state however far away it is.
func TestWideNewcomerFindsAStateThatIsFarAway(t *testing.T) {
	const bound = 1000
	table := New(Options{Bound: bound, Judge: shares{}})
	r := rand.New(rand.NewPCG(9, 10))
	for i := range 200 {
		id := randomID(r)
		s := table.Shard(id)
		s.Lock()
		if slot, _ := s.Widen(id, 1, bound/3*wordsPerWeight, 0); slot != nil {
			slot.State.Lo = 50
		} else {
			t.Errorf("no room for newcomer %d", i)
		}
		s.Unlock()
	}
	if s := table.Stats(); s.Unstored != 0 || s.Keys > 3 || s.Evictions < 190 {
		t.Errorf("%+v", s)
	}
}

func TestStateThatCanNeverFitDrivesNothingOut(t *testing.T) {
	table := New(Options{Bound: 100, Judge: shares{}})
	fill(t, table, 100, 4)
	id := randomID(rand.New(rand.NewPCG(11, 12)))
	s := table.Shard(id)
	s.Lock()
	slot, _ := s.Widen(id, 1, 100*wordsPerWeight, 0)
	s.Unlock()
	if slot != nil {
		t.Errorf("a state of 101 has room in a table of 100")
	}
	if got := table.Stats(); got != (Stats{Keys: 100, Unstored: 1, Full: true}) {
		t.Errorf("%+v", got)
	}
}

func TestIdleStatesAreReclaimedByNewcomers(t *testing.T) {
	table := New(Options{Bound: 100_000, Judge: shares{}})
	fill(t, table, 1000, 4)
	r := rand.New(rand.NewPCG(7, 8))
	for range 1000 {
		table.insert(randomID(r), State{Lo: 100}, 1) // idle at once
	}
	for range 1000 {
		table.insert(randomID(r), State{Lo: 50}, 1+sweepEvery)
	}
	if s := table.Stats(); s.Keys != 2000 || table.held.Load() != 2000 || s.Evictions != 0 {
		t.Errorf("%+v, held %d; want 2000 keys", s, table.held.Load())
	}
}

func TestShardShrinksWhenItsStatesAreIdle(t *testing.T) {
	table := New(Options{Bound: 2000, Judge: shares{}})
	r := rand.New(rand.NewPCG(9, 10))
	for range 1500 {
		table.insert(randomID(r), State{Lo: 100}, 0)
		table.shards[0].sweep = 1
	}
	table.insert(randomID(r), State{Lo: 50}, 1)
	if size := table.shards[0].len(); size != smallSlots {
		t.Errorf("the shard of one state has %d slots", size)
	}
}

func TestWideStatesWeighAsMuchAsTheyTake(t *testing.T) {
	table := New(Options{Bound: 1000, Judge: shares{}})
	s := table.Shard(ID{})
	s.Lock()
	defer s.Unlock()
	id := ID{Hash: 7, Rest: 7}
	for _, capacity := range []int{1, 4, 5, 100} {
		slot, _ := s.Widen(id, 1, capacity, 0)
		w := s.Wide(slot)
		if w = w[:capacity]; w[0] != 0 && capacity == 1 {
			t.Errorf("a new slice holds %v", w)
		}
		w[0]++
		s.SetWide(slot, w[:1])
		if held, want := table.held.Load(), int64(1+(capacity+3)/4); held != want || s.Wide(slot)[0] != w[0] {
			t.Errorf("capacity %d: holds %d, want %d", capacity, held, want)
		}
	}
	if w := s.Wide(s.Find(id)); w[0] != 4 {
		t.Errorf("the slice holds %v, want what was written four times", w)
	}
	s.Delete(id)
	if table.held.Load() != 0 || s.wides.weight != 0 || len(s.wides.free) != 1 {
		t.Errorf("after Delete: holds %d, %+v", table.held.Load(), s.wides)
	}
}

// A state that is found far from its home moves home. The state that it displaces
// is still found, also after states between them have been deleted.
func TestFoundStatesMoveHomeAndLoseNoState(t *testing.T) {
	table := New(Options{Bound: 2000, Judge: shares{}})
	r := rand.New(rand.NewPCG(3, 4))
	ids := make([]ID, 1500)
	for i := range ids {
		ids[i] = randomID(r)
		table.insert(ids[i], State{Hi: r.Uint64(), Lo: uint64(i % 100)}, 0)
	}
	brought := 0
	for round := range 20_000 {
		i := r.IntN(len(ids))
		shard := table.Shard(ids[i])
		if round%40 == 0 && len(ids) > 1000 {
			shard.Delete(ids[i])
			ids[i] = ids[len(ids)-1]
			ids = ids[:len(ids)-1]
			continue
		}
		home := shard.home(ids[i].Hash)
		away := !shard.at(home).is(ids[i]) && !shard.at(home+1).is(ids[i])
		slot := shard.Find(ids[i])
		if slot == nil {
			t.Fatalf("round %d: a state is lost", round)
		}
		if slot != shard.at(home) && slot != shard.at(home+1) {
			t.Fatalf("round %d: the state that was found is not at home", round)
		}
		if away {
			brought++
		}
	}
	for _, id := range ids {
		if table.Shard(id).Find(id) == nil {
			t.Fatal("a state is lost")
		}
	}
	if brought < 1000 {
		t.Errorf("%d states were away; too few to have tested anything", brought)
	}
}

// A bound may be so great that the size of its address space overflows a word.
func TestWindowsTooGreatForAWordAreNotMapped(t *testing.T) {
	const wraps = 2*(math.MaxInt/maxShards/slotSize+1) + slotsPerPage // to a page for each shard
	if w := mapWindows(maxShards, wraps, false); w.memory != nil {
		t.Errorf("%d bytes are mapped for %d windows of %d slots", len(w.memory), maxShards, wraps)
		unmapMemory(w.memory)
	}
}

// usersOf counts the calls of Dropped for each reference.
type usersOf struct {
	shares

	dropped map[uint32]int
}

func (u usersOf) Dropped(ref uint32) { u.dropped[ref]++ }

// Dropped is called exactly once for each state, whatever drops it.
func TestEveryEvictedStateIsReported(t *testing.T) {
	judge := usersOf{dropped: map[uint32]int{}}
	table := New(Options{Bound: 2000, Judge: judge})
	r := rand.New(rand.NewPCG(13, 14))
	stored := map[uint32]int{}
	for i := range 20_000 {
		id, ref, now := randomID(r), uint32(1+i%7), int64(i)*10_000
		s := table.lock(id)
		switch {
		case i%5 == 0: // wide
			if slot, made := s.Widen(id, ref, 1+i%40, now); slot != nil && made {
				stored[ref]++
			}
		case s.Insert(id, ref, State{Lo: uint64(i % 101)}, now): // some exhausted, some idle
			stored[ref]++
		}
		if i%11 == 0 {
			s.Delete(id)
		}
		s.Release(now)
	}
	left := map[uint32]int{}
	for i := range table.shards {
		if s := &table.shards[i]; s.slots != nil {
			for j := range s.all() {
				if slot := s.at(j); slot.ref != 0 {
					left[slot.Ref()]++
				}
			}
		}
	}
	for ref, n := range stored {
		if judge.dropped[ref]+left[ref] != n {
			t.Errorf("reference %d: %d stored, %d reported as dropped, %d left", ref, n, judge.dropped[ref], left[ref])
		}
	}
	table.Clear()
	for ref, n := range stored {
		if judge.dropped[ref] != n {
			t.Errorf("reference %d after Clear: %d stored, %d reported as dropped", ref, n, judge.dropped[ref])
		}
	}
	if held := table.held.Load(); held != 0 {
		t.Errorf("an empty table holds a weight of %d", held)
	}
}

// A new key in an empty shard takes the room of a state in another shard.
func TestEmptyShardEvictsElsewhere(t *testing.T) {
	const whole, bound = 200_000, 8 // states in over 64 shards
	table := New(Options{Bound: whole, Judge: shares{}})
	table.Charge(whole - bound) // the memory beside the states leaves little room
	fill(t, table, bound, 15)
	r := rand.New(rand.NewPCG(16, 17))
	for i := range 1000 {
		if !table.insert(randomID(r), State{Lo: 50}, 0) {
			t.Fatalf("no room for newcomer %d", i)
		}
	}
	if s := table.Stats(); s.Keys != bound || s.Evictions != 1000 || s.Unstored != 0 {
		t.Errorf("%+v", s)
	}
	table.Charge(1)
	id := randomID(r)
	s := table.lock(id)
	defer s.Unlock()
	if !s.Fit(id, 0) || table.held.Load() != whole {
		t.Errorf("%d are held after Fit, want the bound of %d", table.held.Load(), whole)
	}
}
