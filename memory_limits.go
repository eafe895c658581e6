package stint

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/stintdev/stint/internal/table"
)

// maxLimits bounds how many distinct limits one memory store meets in its
// life. Limits that are equal in every field count once.
const maxLimits = 1<<refBits - 1

// The cache in a limit of where a store has it: the store's number, and the
// reference.
const refBits = 20

// registry gives limits short references, which slots hold in their place,
// and judges states for the table by them.
type registry struct {
	store uint64 // a random number that names this store in limits' caches
	all   atomic.Pointer[[]*numbers]

	mu     sync.Mutex
	bySpec map[Spec]uint32 // guarded by mu
}

func (g *registry) init() {
	g.store = rand.Uint64()>>refBits<<refBits | 1<<refBits
	g.all.Store(&[]*numbers{})
	g.bySpec = map[Spec]uint32{}
}

// cached returns the reference of a limit, from 1, if the limit knows it.
func (g *registry) cached(n *numbers) uint32 {
	ref := n.ref.Load() ^ g.store
	if ref > maxLimits {
		return 0
	}
	return uint32(ref)
}

// intern finds the reference of a limit, or gives it one, and has the limit
// know it until another store does the same.
func (g *registry) intern(n *numbers) (uint32, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ref, ok := g.bySpec[n.spec]
	if !ok {
		all := *g.all.Load()
		if len(all) >= maxLimits {
			return 0, &Error{Code: CodeExhausted, Problem: "limit: the memory store has met as many distinct limits as it can",
				Mend: "do not make limits up for each request; a new store starts afresh"}
		}
		all = append(all, n)
		g.all.Store(&all)
		ref = uint32(len(all))
		g.bySpec[n.spec] = ref
	}
	n.ref.Store(g.store | uint64(ref))
	return ref, nil
}

// at returns the limit of a reference.
func (g *registry) at(ref uint32) *numbers { return (*g.all.Load())[ref-1] }

// Idle implements [table.Judge].
func (g *registry) Idle(ref uint32, state table.State, wide []int64, now int64) bool {
	n := g.at(ref)
	if n.wide() {
		return n.idleWide(wide, now)
	}
	return n.idle(cell(state), now)
}

// Left implements [table.Judge].
func (g *registry) Left(ref uint32, state table.State, wide []int64, now int64) int64 {
	n := g.at(ref)
	if n.wide() {
		return n.leftWide(wide, now)
	}
	return n.left(cell(state), now)
}
