package stint

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/stintdev/stint/internal/table"
)

// refBits is the size of a reference in bits. The remaining bits of a limit's
// cached reference identify the store that assigned it.
const refBits = 31

// registry assigns short references to limits. A slot of the table holds a
// reference in place of a pointer. The registry is also the [table.Judge] of
// the table: it finds the limit of a state by its reference.
//
// References are counted. A limit has a reference while any state uses it: from
// when the state is stored until it is dropped or rewritten under another
// limit. When the last state goes, the registry forgets the limit. The memory
// for limits is therefore bounded by the number of states.
//
// References are assigned in ascending order and repeat only after 2^31
// others. A limit may therefore cache the reference of an entry that was
// forgotten: no slot holds that reference.
type registry struct {
	store   uint64       // a random number that identifies this store in the caches of limits
	charged *table.Table // charged for each limit beyond the free ones; may be nil

	places atomic.Pointer[places] // written with mu held

	mu sync.Mutex
	// The fields below are guarded by mu.
	byNumbers map[limitNumbers]*registered
	last      uint32 // the reference assigned last
}

// places finds limits by the low bits of their references. Its length is a
// power of two, and at least twice the number of limits.
type places []atomic.Pointer[registered]

// registered is a limit that has a reference.
type registered struct {
	n     *compiledLimit
	ref   uint32
	users atomic.Int64 // number of states, or the constant forgotten once it is no longer registered
}

const forgotten = -1

// limitNumbers tells limits apart. The spec alone is not enough: a node's share of
// a limit has the spec of the whole limit.
type limitNumbers struct {
	spec      Spec
	max, p, q int64
}

func numbersOf(n *compiledLimit) limitNumbers { return limitNumbers{n.spec, n.max, n.p, n.q} }

// The weight of a limit, in a table that is charged for limits. A compiled limit
// and its entry take about 1.5 KB, less than 40 slots. The first limits are
// free, so that limits do not fill a small table.
const (
	limitWeight = 40
	freeLimits  = 1000
)

const fewPlaces = 64

func (g *registry) init() {
	g.store = rand.Uint64() >> refBits << refBits
	g.reset()
}

// reset empties the registry and shrinks it to its first size.
func (g *registry) reset() {
	g.byNumbers = map[limitNumbers]*registered{}
	p := make(places, fewPlaces)
	g.places.Store(&p)
}

// cached returns the limit's reference in this store from the cache in the
// limit, or 0 when the cache holds none of this store.
func (g *registry) cached(n *compiledLimit) uint32 {
	ref := n.ref.Load() ^ g.store
	if ref > table.MaxRef {
		return 0
	}
	return uint32(ref)
}

// hold returns the reference of a limit and counts one more state that uses it.
// The limit caches the reference until another store does the same.
func (g *registry) hold(n *compiledLimit) uint32 {
	if ref := g.cached(n); ref != 0 {
		if l := g.find(ref); l != nil && l.ref == ref && (l.n == n || numbersOf(l.n) == numbersOf(n)) && l.hold() {
			return ref
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.byNumbers[numbersOf(n)]
	if l == nil {
		l = g.addLocked(n)
	}
	l.users.Add(1) // l cannot be forgotten while mu is held
	n.ref.Store(g.store | uint64(l.ref))
	return l.ref
}

// addLocked registers a limit.
func (g *registry) addLocked(n *compiledLimit) *registered {
	l := &registered{n: n}
	g.byNumbers[numbersOf(n)] = l
	if len(g.byNumbers) > freeLimits && g.charged != nil {
		g.charged.Charge(limitWeight)
	}
	p := *g.places.Load()
	if len(g.byNumbers) > len(p)/2 {
		p = p.doubled()
		g.places.Store(&p)
	}
	for ok := false; !ok; ok = g.last != 0 && p.at(g.last).Load() == nil {
		g.last = (g.last + 1) & table.MaxRef
	}
	l.ref = g.last
	p.at(l.ref).Store(l)
	return l
}

// release counts one state less that uses a reference.
func (g *registry) release(ref uint32) {
	if l := g.find(ref); l.users.Add(-1) == 0 {
		g.forget(l)
	}
}

// forget drops a limit unless a state uses it again.
func (g *registry) forget(l *registered) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !l.users.CompareAndSwap(0, forgotten) {
		return
	}
	if len(g.byNumbers) > freeLimits && g.charged != nil {
		g.charged.Charge(-limitWeight)
	}
	delete(g.byNumbers, numbersOf(l.n))
	if len(g.byNumbers) == 0 {
		g.reset()
		return
	}
	g.places.Load().at(l.ref).Store(nil)
}

// size returns the number of registered limits.
func (g *registry) size() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.byNumbers)
}

// find returns the limit at the place of a reference. The caller must hold the lock of a shard
// with a state that uses the reference. Without that, the result may be another limit, or nil.
func (g *registry) find(ref uint32) *registered { return g.places.Load().at(ref).Load() }

// at returns the limit of a reference that a state uses.
func (g *registry) at(ref uint32) *compiledLimit { return g.find(ref).n }

func (p places) at(ref uint32) *atomic.Pointer[registered] { return &p[int(ref)&(len(p)-1)] }

func (p places) doubled() places {
	twice := make(places, 2*len(p))
	for i := range p {
		if l := p[i].Load(); l != nil {
			twice.at(l.ref).Store(l)
		}
	}
	return twice
}

// hold counts one more user. It reports false if the limit is forgotten.
func (l *registered) hold() bool {
	for {
		users := l.users.Load()
		if users == forgotten {
			return false
		}
		if l.users.CompareAndSwap(users, users+1) {
			return true
		}
	}
}

// Idle implements [table.Judge].
func (g *registry) Idle(ref uint32, state table.State, wide []int64, now int64) bool {
	n := g.at(ref)
	if n.wide() {
		return n.idleWide(wide, now)
	}
	return n.idle(packed(state), now)
}

// Left implements [table.Judge].
func (g *registry) Left(ref uint32, state table.State, wide []int64, now int64) int64 {
	n := g.at(ref)
	if n.wide() {
		return n.leftWide(wide, now)
	}
	return n.left(packed(state), now)
}

// Dropped implements [table.Judge].
func (g *registry) Dropped(ref uint32) { g.release(ref) }
