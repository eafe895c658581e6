package table

import (
	"math"
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
	// Left says how much a state would lose its owner nothing to forget:
	// the greatest goes first, and 0 never goes.
	Left(ref uint32, state State, wide []int64, now int64) int64
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
	shards  []Shard // a power of two
	mask    uint32
	arena   arena
	judge   Judge
	keepAll bool
	bound   int64
	most    int // slots of a shard

	sizes  []atomic.Uint32 // of the shards, close together for Touch
	spread atomic.Bool     // more is held than caches hold, in mapped memory
	ahead  atomic.Bool     // the middle windows have been made resident

	held      atomic.Int64 // weight
	evictions atomic.Uint64
	unstored  atomic.Uint64
	full      atomic.Bool
	scratch   sync.Pool // *[]Slot, of rebuilds
}

const (
	keysPerShard = 2500 // small enough to rebuild in tens of microseconds
	maxShards    = 1 << 16
	keepShards   = 1 << 12 // when there is no bound
	keepSlots    = 1 << 18 // of each window then; beyond it, the Go heap
	spreadFrom   = 1 << 13 // states
	aheadFrom    = 80      // states a shard; the fullest is then at some 115, and leaves for the middle at 205
)

// New makes an empty table. It reserves address space for its bound and uses
// memory only as states come.
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
	t.sizes = make([]atomic.Uint32, shards)
	t.arena = reserve(shards, window)
	for i := range t.shards {
		t.shards[i].table, t.shards[i].number = t, uint32(i)
		t.shards[i].resize(smallSlots)
	}
	runtime.AddCleanup(&t.shards[0], arena.free, t.arena)
	return t
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

// wholePages is the room for so many keys at the load that growth leaves: the
// smallest size or the middle one where they suit, else whole pages, because
// what would be left over of a page is resident anyway.
func wholePages(keys int) int {
	slots := keys*loadDen/growLoadNum + 1
	switch {
	case slots <= smallSlots:
		return smallSlots
	case slots > middleSlots/2 && slots <= middleSlots:
		return middleSlots
	default:
		return (slots + slotsPerPage - 1) / slotsPerPage * slotsPerPage
	}
}

// Number is the number of the shard of an identity. Who locks several shards
// locks them in the order of their numbers.
func (t *Table) Number(id ID) uint32 { return uint32(id.Rest>>32) & t.mask }

// Shard returns the shard of an identity.
func (t *Table) Shard(id ID) *Shard { return &t.shards[t.Number(id)] }

// Touch begins to bring the shard and the slot of an identity to the cache,
// without the lock. Who touches first waits for memory while it does something
// else. It does nothing while the table is small enough to be there anyway.
func (t *Table) Touch(id ID) {
	if t.spread.Load() {
		t.touch(id)
	}
}

func (t *Table) touch(id ID) {
	number := t.Number(id)
	size := int(t.sizes[number].Load())
	touch(unsafe.Pointer(&t.shards[number]), unsafe.Add(t.arena.at(int(number), size), home(id.Hash, size)*slotSize))
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

// outgrow does what a table in mapped memory needs once on the way to a size.
// The middle windows are made resident before the first shard comes there:
// where the memory of a machine is itself virtual, one huge page has taken
// seven milliseconds.
func (t *Table) outgrow(held int64) {
	if !t.spread.Load() {
		t.spread.Store(true)
	}
	if held > int64(len(t.shards))*aheadFrom && !t.ahead.Load() && t.ahead.CompareAndSwap(false, true) {
		go func() {
			populateMemory(t.arena.middle.memory)
			runtime.KeepAlive(t) // frees the arena
		}()
	}
}

func (t *Table) release(weight int) { t.held.Add(-int64(weight)) }
