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
	// Bound is the greatest weight held. A state weighs one, and one more for
	// every 32 bytes of a slice beside it. At least 1.
	Bound int

	// KeepAll ignores Bound and never drops a state by itself.
	KeepAll bool

	// Judge decides which states may be dropped.
	Judge Judge
}

// Judge tells a table which states it may drop. The table calls it with the
// state's shard locked. wide is the slice of a wide state.
type Judge interface {
	// Idle reports whether the state equals a fresh one at now.
	Idle(ref uint32, state State, wide []int64, now int64) bool
	// Left returns how much of a state's allowance is left. An eviction
	// chooses the state with the most, and never one with 0.
	Left(ref uint32, state State, wide []int64, now int64) int64
	// Dropped is called for every state that is dropped, for any reason. The reference then has
	// one state less.
	Dropped(ref uint32)
}

// Stats are counts since the table was made. Keys is the number held now.
type Stats struct {
	Keys      int
	Evictions uint64 // states evicted although they were not idle
	Unstored  uint64 // states for which there was no room
	Full      bool   // the bound has been reached at least once
}

// Table is a table of states. Make one with [New].
type Table struct {
	shards      []Shard // all shards that there may be, a power of two
	mask        uint32
	lookup      []atomic.Uint32 // number of the shard, by the low bits of a tag
	tagBits     atomic.Uint32   // mask of those bits that distinguish shards so far
	earlyShards int             // shards that have an early window
	arena       arena
	judge       Judge
	keepAll     bool
	bound       int64
	most        int // greatest number of slots of a shard

	sizes    []atomic.Uint32 // sizes of the shards with lateBit, close together for Touch
	spread   atomic.Bool     // the states no longer fit into processor caches, and memory is mapped
	resident atomic.Uint32   // shards whose early windows have been made resident

	held      atomic.Int64 // total weight of the states
	evictions atomic.Uint64
	unstored  atomic.Uint64
	full      atomic.Bool
	hand      atomic.Uint32 // rotates over the shards to find one to evict from
	scratch   sync.Pool     // *[]Slot, for rebuilds
}

const (
	keysPerShard = 1250 // small enough to rebuild in tens of microseconds
	maxShards    = 1 << 16
	keepShards   = 1 << 12 // number of shards with KeepAll
	keepSlots    = 1 << 18 // slots of each window with KeepAll; larger shards use the Go heap
	spreadFrom   = 1 << 13 // weight from which states spread over many shards
	lateBit      = 1 << 31 // in a size: the shard uses its late window
)

// New makes an empty table. It reserves address space for its bound. Apart from
// some megabytes, it uses memory only as states come.
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

// firstShards returns the initial number of shards: enough that processors
// seldom contend for one.
func firstShards() int { return max(64, 16<<bits.Len(uint(runtime.GOMAXPROCS(0)-1))) }

// open sets up the initial shards.
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
	t.resident.Store(uint32(first))
	t.arena.early.populate(0, min(first, t.earlyShards))
}

// shardsFor returns the power of two nearest to bound/keysPerShard.
func shardsFor(bound int64) int {
	n := 1
	for n < maxShards && bound/int64(n) > keysPerShard*4/3 {
		n *= 2
	}
	return n
}

// slotsFor returns how many slots the fullest shard can need: room, at the load
// after growth, for its share of the bound and six standard deviations more.
func slotsFor(bound, shards int) int {
	keys := min(float64(bound), float64(bound)/float64(shards)+6*math.Sqrt(float64(bound)/float64(shards)))
	return wholePages(int(keys) + 1)
}

// wholePages returns the number of slots for the given number of keys at the
// load after growth. It rounds up to whole pages, because the rest of a page is
// resident anyway. It returns smallSlots if that is enough.
func wholePages(keys int) int {
	slots := keys*loadDen/growLoadNum + 1
	if slots <= smallSlots {
		return smallSlots
	}
	return (slots + slotsPerPage - 1) / slotsPerPage * slotsPerPage
}

// Shard returns the shard of an identity. A split may change that until the
// shard is locked; check with [Shard.Owns] afterwards. A caller that locks
// several shards must lock them in the order of their numbers.
func (t *Table) Shard(id ID) *Shard { return &t.shards[t.shardOf(id)] }

// shardOf returns the number of the shard of an identity. It reads only the part
// of lookup that the present shards need, which is small enough for a cache.
func (t *Table) shardOf(id ID) uint32 { return t.lookup[id.tag()&t.tagBits.Load()].Load() }

// Number returns the number of the shard, unique in its table.
func (s *Shard) Number() uint32 { return s.number }

// Touch prefetches the shard and the home slot of an identity. It needs no lock.
// A caller that does other work between Touch and Find hides the latency of
// memory. Touch does nothing while the table fits into processor caches.
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

// Fetch prefetches a key: its first and its last cache line, which cover all but
// long keys.
func Fetch(key string) {
	if key != "" {
		first := unsafe.Pointer(unsafe.StringData(key))
		fetch(first, unsafe.Add(first, len(key)-1))
	}
}

// Stats returns the counts of the table. It locks one shard after the other.
func (t *Table) Stats() Stats {
	s := Stats{Evictions: t.evictions.Load(), Unstored: t.unstored.Load(), Full: t.full.Load()}
	for i := range t.shards {
		t.shards[i].Lock()
		s.Keys += int(t.shards[i].count)
		t.shards[i].Unlock()
	}
	return s
}

// Clear drops every state and returns the memory to the system. It locks one
// shard after the other.
func (t *Table) Clear() {
	for i := range t.shards {
		t.shards[i].Lock()
		t.shards[i].clear()
		t.shards[i].Unlock()
	}
}

// fits reports whether an empty table would have room for one state of the given
// weight. If not, it counts the state as unstored; the check keeps the table from
// evicting states for one that can never fit.
func (t *Table) fits(weight int) bool {
	if t.keepAll || int64(weight) <= t.bound {
		return true
	}
	t.full.Store(true)
	t.unstored.Add(1)
	return false
}

// hold adds weight if the bound allows it, and reports whether it did.
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

// Charge adds the weight of data kept beside the states, such as the limits that
// references stand for. A weight below 0 releases it. Charge may exceed the
// bound; [Shard.Fit] and the arrival of new keys then evict states until the
// bound holds again.
func (t *Table) Charge(weight int) { t.held.Add(int64(weight)) }
