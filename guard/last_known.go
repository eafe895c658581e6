package guard

import (
	"context"
	"hash/maphash"
	"sync"

	"github.com/stintdev/stint"
)

// Under [stint.FailLastKnown] the store's answers are knowledge for the next failure.
//
// While the store works, every answer lowers the local state of its key, which has this
// node's share of the limit, until at most ⌈Remaining/nodes⌉ remains there. An answer never
// raises the state: what remains there grows only at the limit's own pace, the rate divided
// by the number of nodes. So a failure needs no step of its own: local decisions continue
// from the state, and a key without a state has the whole share, as under FailLocal.
//
// The price is two decisions in memory for each answer, and a state for each key that the
// node has seen lately. Both fall on claims with this policy alone. The memory store bounds
// the keys. When it is full, it evicts keys of which much remains, which loses the least
// knowledge, and it keeps the limits that callers bring apart.
//
// The bound: let R be the greatest Remaining that one of N nodes last knew of a key, and S
// the share, ⌈limit/N⌉. In a failure of length t, which begins at most t' after those
// answers, all nodes together admit at most N·min(⌈R/N⌉, S) at once, which is less than
// R + N, and what the rate refills in t + t'. A bucket may admit one unit more on each
// node, because answers count whole units and the local bucket keeps its fraction. That is
// the limit of a store that works, apart from the rounding. Nodes that know nothing of the
// key admit at most S each, as under FailLocal. A window, counter or log keeps what it was
// lowered by until the time of the answer has left its window.

// settles reports whether the store's answer to a claim changes the local state.
func (s *Store) settles(c *stint.Claim) bool {
	switch c.Policy.OnFailure {
	case stint.FailLastKnown:
		return true
	case stint.FailLocal:
		l := s.local.Load()
		return l != nil && l.counts()
	}
	return false
}

// settle brings the local state up to date with the store's answer to a claim. admitted
// says whether the store has charged the claim.
func (s *Store) settle(c *stint.Claim, d *stint.Decision, admitted bool) {
	if c.Policy.OnFailure == stint.FailLastKnown {
		s.knowledge().learn(c, d, admitted, s.nodes())
	} else if l := s.local.Load(); l != nil && admitted {
		l.chargeAdmitted(c, d, s.nodes())
	}
}

// knowledge returns the local state, which from now on is never dropped.
func (s *Store) knowledge() *local {
	for {
		l := s.openLocal()
		if l.knows.Load() {
			return l
		}
		l.knows.Store(true)
		if !s.dropped(l) {
			return l
		}
	}
}

// learn lowers the local state of a claim to this node's part of what remains in the store.
// It first repeats a refund or a reset that the store has granted. It ignores a decision
// that the store made without its own store, such as that of another server: what remains
// is then unknown.
//
// While a local decision still counts, an admission is charged here too, for the reason
// given at [local].
func (l *local) learn(c *stint.Claim, d *stint.Decision, admitted bool, nodes int) {
	in, ok := l.localClaim(c, nodes)
	if !ok || d.Degraded {
		return
	}
	in.AnyOf, in.Cost = 0, 0
	if admitted {
		in.Cost = min(c.Cost, 0)
	}
	charge := int64(0)
	if admitted && l.counts() {
		charge = max(c.Cost, 0) + d.Granted
	}
	lock := l.learning.of(in.Key)
	lock.Lock()
	defer lock.Unlock()
	has, err := l.store.Take(context.Background(), in)
	n := int64(max(1, nodes))
	excess := max(has.Remaining-(d.Remaining+n-1)/n, charge)
	if err != nil || excess <= 0 {
		return
	}
	in.Cost, in.At, in.MaxDelay, in.Extra = 0, 0, 0, min(excess, stint.MaxCost)
	_, _ = l.store.Take(context.Background(), in)
}

// stripes are locks by key. With its key's lock held, an answer reads the local state and
// lowers it in one step: otherwise concurrent answers for a hot key would each lower the
// state by the difference that all of them saw.
type stripes struct {
	seed  maphash.Seed
	locks [64]sync.Mutex
}

func (s *stripes) of(key string) *sync.Mutex {
	return &s.locks[maphash.String(s.seed, key)%uint64(len(s.locks))]
}
