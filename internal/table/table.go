package table

import (
	"math"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Options configures a [Table].
type Options struct {
	// Bound is the greatest weight held: one for a state, and one more for
	// every 32 bytes of a slice beside it. At least 1.
	Bound int

	// KeepAll ignores Bound and never drops a state by itself.
	KeepAll bool

	// Judge tells which states may go.
	Judge Judge
}

// Judge tells the worth of a state to a table that looks for room. It is
// called with the state's shard locked. wide is the slice of a wide state.
type Judge interface {
	// Idle reports whether the state is as good as none at now.
	Idle(ref uint32, state State, wide []int64, now int64) bool
	// Left says how much of a state's allowance is left: where one must go,
	// it is the state with the most, and never one with 0.
	Left(ref uint32, state State, wide []int64, now int64) int64
	// Dropped is called for every state that goes, whatever the reason: its
	// reference is used by one state less.
	Dropped(ref uint32)
}

// Stats are counts since the table was made, but Keys, which are held now.
type Stats struct {
	Keys      int
	Evictions uint64 // states given up although they were not idle
	Unstored  uint64 // states for which there was no room
	Full      bool   // the bound has been met
}

// Table is a table of states. Make one with [New].
type Table struct {
	shards      []Shard // a power of two, as many as there may be
	mask        uint32
	lookup      []atomic.Uint32 // by the low bits of a tag: the number of its shard
	told        atomic.Uint32   // of those bits, the ones that tell shards apart so far
	earlyShards int             // shards that have an early window
	arena       arena
	judge       Judge
	keepAll     bool
	bound       int64
	most        int // slots of a shard

	sizes  []atomic.Uint32 // of the shards, close together for Touch; with lateBit
	spread atomic.Bool     // more is held than caches hold, in mapped memory
	born   atomic.Uint32   // shards whose early windows have been made resident

	held      atomic.Int64 // weight
	evictions atomic.Uint64
	unstored  atomic.Uint64
	full      atomic.Bool
	hand      atomic.Uint32 // goes round the shards, for one to evict from
	scratch   sync.Pool     // *[]Slot, of rebuilds
}

const (
	keysPerShard = 1250 // small enough to rebuild in tens of microseconds
	maxShards    = 1 << 16
	keepShards   = 1 << 12 // when there is no bound
	keepSlots    = 1 << 18 // of each window then; beyond it, the Go heap
	spreadFrom   = 1 << 13 // states
	lateBit      = 1 << 31 // of a size: it is that of a late window
)

// New makes an empty table. It reserves address space for its bound and uses
// memory only as states come, but for some megabytes.
func New(o Options) *Table {
	t := &Table{judge: o.Judge, keepAll: o.KeepAll, bound: int64(max(1, o.Bound))}
	shards := keepShards
	window := keepSlots
	t.most = math.MaxInt
	if !t.keepAll {
		shards = shardsFor(t.bound)
		window = slotsFor(int(t.bound), shards)
		t.most = window
	}
	t.shards, t.mask = make([]Shard, shards), uint32(shards-1)
	t.sizes, t.lookup = make([]atomic.Uint32, shards), make([]atomic.Uint32, shards)
	first := min(shards, firstShards())
	if first < shards {
		t.earlyShards = shards / 2
	}
	t.arena = reserve(t.earlyShards, shards, window)
	runtime.AddCleanup(&t.shards[0], arena.free, t.arena)
	t.open(first)
	return t
}

// firstShards is how many shards a table begins with: enough that processors
// seldom meet.
func firstShards() int { return max(64, 16<<bits.Len(uint(runtime.GOMAXPROCS(0)-1))) }

// open makes the first shards.
func (t *Table) open(first int) {
	for i := range t.shards {
		t.shards[i].table, t.shards[i].number = t, uint32(i)
	}
	for i := range t.shards[:first] {
		s := &t.shards[i]
		s.mask = uint32(first - 1)
		s.resize(smallSlots)
		t.lead(s)
	}
	t.born.Store(uint32(first))
	t.arena.early.populate(0, min(first, t.earlyShards))
}

// shardsFor is the power of two nearest to bound/keysPerShard.
func shardsFor(bound int64) int {
	n := 1
	for n < maxShards && bound/int64(n) > keysPerShard*4/3 {
		n *= 2
	}
	return n
}

// slotsFor is how many slots the fullest shard needs at most: its share of
// the bound, six standard deviations of chance above it, and the load.
func slotsFor(bound, shards int) int {
	keys := min(float64(bound), float64(bound)/float64(shards)+6*math.Sqrt(float64(bound)/float64(shards)))
	return wholePages(int(keys) + 1)
}

// wholePages is the room for so many keys at the load that growth leaves, in
// pages, because what would be left over of a page is resident anyway; or the
// smallest size, if that is enough.
func wholePages(keys int) int {
	slots := keys*loadDen/growLoadNum + 1
	if slots <= smallSlots {
		return smallSlots
	}
	return (slots + slotsPerPage - 1) / slotsPerPage * slotsPerPage
}

// Shard returns the shard of an identity. Once it is locked, [Shard.Owns]
// tells whether it still is. Who locks several shards locks them in the order
// of their numbers.
func (t *Table) Shard(id ID) *Shard { return &t.shards[t.shardOf(id)] }

// shardOf returns the number of the shard of an identity. It reads the part of
// lookup that differs so far, which a cache holds.
func (t *Table) shardOf(id ID) uint32 { return t.lookup[id.tag()&t.told.Load()].Load() }

// Number tells shards apart.
func (s *Shard) Number() uint32 { return s.number }

// Touch begins to bring the shard and the slot of an identity to the cache,
// without the lock. Who touches first waits for memory while it does something
// else. It does nothing while the table is small enough to be there anyway.
func (t *Table) Touch(id ID) {
	if t.spread.Load() {
		t.touch(id)
	}
}

func (t *Table) touch(id ID) {
	number := t.shardOf(id)
	size := t.sizes[number].Load()
	w := t.arena.of(size&lateBit != 0)
	touch(unsafe.Pointer(&t.shards[number]), unsafe.Add(w.at(int(number)), home(id.Hash, int(size&^lateBit))*slotSize))
}

// Fetch begins to bring a key to the cache, without waiting for it: its first
// line and its last, which are all but of a long one.
func Fetch(key string) {
	if key != "" {
		first := unsafe.Pointer(unsafe.StringData(key))
		fetch(first, unsafe.Add(first, len(key)-1))
	}
}

// Stats locks one shard after the other.
func (t *Table) Stats() Stats {
	s := Stats{Evictions: t.evictions.Load(), Unstored: t.unstored.Load(), Full: t.full.Load()}
	for i := range t.shards {
		t.shards[i].Lock()
		s.Keys += int(t.shards[i].count)
		t.shards[i].Unlock()
	}
	return s
}

// Clear forgets every state and gives the memory back to the system. It locks
// one shard after the other.
func (t *Table) Clear() {
	for i := range t.shards {
		t.shards[i].Lock()
		t.shards[i].clear()
		t.shards[i].Unlock()
	}
}

// fits reports whether an empty table would have room for one state of the
// weight, and counts it when not: nothing need go for a state that cannot stay.
func (t *Table) fits(weight int) bool {
	if t.keepAll || int64(weight) <= t.bound {
		return true
	}
	t.full.Store(true)
	t.unstored.Add(1)
	return false
}

// hold takes weight from what the bound leaves.
func (t *Table) hold(weight int) bool {
	held := t.held.Add(int64(weight))
	if held > spreadFrom && t.arena.mapped() {
		t.outgrow(held)
	}
	if held <= t.bound || t.keepAll {
		return true
	}
	t.held.Add(-int64(weight))
	t.full.Store(true)
	return false
}

func (t *Table) release(weight int) { t.held.Add(-int64(weight)) }

// Charge adds the weight of what is kept beside the states, such as what their
// references stand for; below 0 it gives weight back. It may pass the bound:
// then newcomers, and [Shard.Fit], evict until it is kept again.
func (t *Table) Charge(weight int) { t.held.Add(int64(weight)) }
