package stint

import (
	"slices"
	"sync"
	"time"

	"github.com/stintdev/stint/internal/groupcall"
)

// DefaultOnceBytes is the default of [MemoryOptions.OnceBytes].
const DefaultOnceBytes = 128 << 20

// The decisions of a group with a Once must be remembered in the same atomic step as its
// charge: between the two, a repeat would be charged again. So the store decides such a
// group under the lock of the table of remembered groups, which it takes before the locks
// of states. Groups without a Once never touch that lock. Groups with one wait for each
// other, for about a microsecond each.

// onceTable holds the groups that a memory store remembers. It never forgets one early:
// when its budget is used up, it refuses new ones.
type onceTable struct {
	budget int // in bytes

	mu sync.Mutex
	// The fields below are guarded by mu.
	byID    map[[16]byte]*remembered
	queue   []*remembered // in the order in which they were added
	bytes   int
	refused uint64
}

// remembered is the outcome of an admitted group.
type remembered struct {
	id, ask   [16]byte // the digests of the Once and of the group
	at        int64    // when it was decided, in microseconds
	decisions []Decision
}

// rememberedBytes is an upper bound on the bytes of a remembered group beside its
// decisions: the struct, its entry in the map and its place in the queue.
const rememberedBytes = 208

const decisionBytes = 96

// sizeOfRemembered returns an upper bound on the bytes of a remembered group.
func sizeOfRemembered(decisions int) int { return rememberedBytes + decisionBytes*decisions }

func (r *remembered) expired(now int64) bool { return now-r.at >= RememberFor.Microseconds() }

// findLocked returns the decisions of an earlier call of the group, or nil if there was none.
// The error says that the group must not be decided.
func (t *onceTable) findLocked(id, ask [16]byte, claims int, now int64) ([]Decision, error) {
	t.expireLocked(now, sizeOfRemembered(claims))
	switch r := t.byID[id]; {
	case r == nil || r.expired(now): // expired ones stay in the queue for a while
	case r.ask != ask:
		problem, mend := groupcall.OnceConflict()
		return nil, &Error{Code: CodeConflict, Problem: problem, Mend: mend}
	default:
		return r.decisions, nil
	}
	if t.bytes+sizeOfRemembered(claims) <= t.budget {
		return nil, nil
	}
	t.refused++
	problem, mend := groupcall.OnceBudget()
	return nil, &Error{Code: CodeExhausted, Kind: KindOnceBudget, Problem: problem, Mend: mend, RetryAfter: t.waitLocked(now)}
}

// waitLocked returns the time until the oldest remembered group is forgotten.
func (t *onceTable) waitLocked(now int64) time.Duration {
	if len(t.queue) == 0 {
		return RememberFor // the group alone is beyond the budget
	}
	return time.Duration(max(1, t.queue[0].at+RememberFor.Microseconds()-now)) * time.Microsecond
}

// addLocked remembers an admitted group.
func (t *onceTable) addLocked(id, ask [16]byte, now int64, decisions []Decision) {
	if t.byID == nil {
		t.byID = map[[16]byte]*remembered{}
	}
	r := &remembered{id: id, ask: ask, at: now, decisions: slices.Clone(decisions)}
	for i := range r.decisions {
		r.decisions[i].Repeated = true
	}
	t.byID[id] = r
	t.queue = append(t.queue, r)
	t.bytes += sizeOfRemembered(len(decisions))
}

// maxExpired bounds the expired groups that one call forgets. To forget a full table at
// once would take tens of milliseconds, for which all calls with an ID would wait.
const maxExpired = 64

// expireLocked forgets groups at the head of the queue that have expired: a few, and more
// if there is no room for a group of a size.
func (t *onceTable) expireLocked(now int64, size int) {
	n := 0
	for n < len(t.queue) && t.queue[n].expired(now) && (n < maxExpired || t.bytes+size > t.budget) {
		r := t.queue[n]
		if t.byID[r.id] == r {
			delete(t.byID, r.id)
		}
		t.bytes -= sizeOfRemembered(len(r.decisions))
		t.queue[n] = nil
		n++
	}
	if t.queue = t.queue[n:]; len(t.queue) == 0 {
		t.queue, t.byID = nil, nil // a map never shrinks
	}
}

// clear forgets all groups.
func (t *onceTable) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue, t.byID, t.bytes = nil, nil, 0
}

func (t *onceTable) stats() OnceStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return OnceStats{Remembered: len(t.queue), Bytes: t.bytes, Refused: t.refused}
}

// decideLeader decides a group without its shadows. It reports whether the shadows may be
// charged: the group is admitted, and not a repeat.
func (g *groupCall) decideLeader(b *batch, group *Group, first int) (admitted bool, err error) {
	if group.Once != nil && group.Repeatable() {
		return g.decideOnce(b, group, first)
	}
	return g.decide(b, group.Claims, first, !group.Dry)
}

// decideOnce decides a group that may be a repeat, whose claims begin at first in the
// batch. fresh says that it is admitted by this call, and not a repeat.
func (g *groupCall) decideOnce(b *batch, group *Group, first int) (fresh bool, err error) {
	if err := group.Once.Validate(); err != nil {
		return false, err
	}
	out := b.out[first : first+len(group.Claims)]
	for i := range out {
		if err := b.errs[first+i]; err != nil {
			return false, err
		}
	}
	id, ask, t := group.Once.Digest(), group.Digest(), &g.memory.once
	t.mu.Lock()
	defer t.mu.Unlock()
	before, err := t.findLocked(id, ask, len(out), g.now)
	if err != nil || before != nil {
		copy(out, before)
		return false, err
	}
	admitted, err := g.decide(b, group.Claims, first, true)
	if err == nil && admitted {
		t.addLocked(id, ask, g.now, out)
	}
	return admitted, err
}
