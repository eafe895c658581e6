// Package denials keeps the last denials of a node in bounded memory. They show an operator
// which callers are denied now, and why.
//
// [Recorder] records the denials of a rule set, [Recent] those of other limits; [Recent.Read]
// returns them. The decision log has the same facts for good; this package needs no disk, and
// answers at once.
//
// The problem: an attack makes most of the denials, and callers invent keys and paths. One ring
// of the last denials would then hold nothing but the attack. The approach: the memory is
// divided equally among the rules, so that no rule displaces the denials of another, and the
// share of a rule is divided into rings among which a secret hash distributes its keys, so that
// one busy key displaces an eighth of the others at most. A flood of invented keys on one rule
// does displace the other denials of that rule: the rings are a bound, not a history.
//
// What it costs: the path of a check copies a few texts into a place that exists already, under
// a lock that one rule and an eighth of its keys share. It shortens no key and masks no path:
// that is done when the denials are read, from copies of the key and of the other identities of
// the request. The copies never leave the package whole. All memory together is at most 4 MiB.
package denials

import (
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/stintdev/stint/cmd/stint/internal/decisionlog"
	"github.com/stintdev/stint/cmd/stint/internal/emergency"
	"github.com/stintdev/stint/rule"
)

// The rules of denials that no rule of a set makes. No rule can have these names.
const (
	Takes = decisionlog.Takes // of limits that callers bring
	Envoy = "(envoy)"         // of limits of Envoy's configuration
)

const (
	// memory bounds the entries, in bytes. The remainder of 4 MiB is for the shares.
	memory     = 3584 << 10
	entrySize  = int(unsafe.Sizeof(entry{}))
	maxEntries = memory / entrySize
	// maxShares bounds the shares. The rules beyond have one share together.
	maxShares = 2048
	// maxPatterns is the number of rule sets whose key patterns mask paths.
	maxPatterns = 2
	// maxRings is the number of rings of a share, and leastRing the least size of one of several.
	maxRings  = 8
	leastRing = 8
)

// Options configures a [Recent].
type Options struct {
	// Key is the key of the hashes that stand for callers, the same as that of the decision log;
	// the zero Key: a random one.
	Key decisionlog.Key
	// Surfaces are the names of the surfaces, by number.
	Surfaces []string
	Now      func() time.Time // nil: time.Now
}

// Recent holds the last denials of a node. Make it with [New]. It is safe for concurrent use.
type Recent struct {
	options  Options
	seed     maphash.Seed                        // of the rings: callers cannot choose one
	process  uint64                              // random: tells the numbers of one process from those of another
	turn     atomic.Uint64                       // the turn of new entries; each read begins a new one
	patterns atomic.Pointer[[]*rule.KeyPatterns] // of the newest sets, the newest first

	takes, envoy, none, emergency place // of denials that no rule of the set makes

	reading sync.Mutex // held by [Recent.Read], which bounds its memory

	mu struct {
		sync.Mutex

		shares   map[string]*share // by rule
		others   *share            // of the rules beyond maxShares; nil if there are none
		inForce  map[string]bool   // the rules of the newest set
		previous map[string]bool   // those of the set before
		moved    uint64            // entries that rings had when they were replaced
	}
}

// share holds the denials of one rule, or those of several, which then have its id.
type share struct {
	rule  string
	rings atomic.Pointer[[]ring] // their number is a power of 2
}

// place says where the denials of a rule go. rule is its id if the share is of several.
type place struct {
	share *share
	rule  string
}

// New returns an empty list of denials.
func New(o Options) *Recent {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Key.IsZero() {
		o.Key = decisionlog.NewKey()
	}
	r := &Recent{options: o, seed: maphash.MakeSeed(), process: rand.Uint64()}
	r.takes, r.envoy = place{&share{rule: Takes}, ""}, place{&share{rule: Envoy}, ""}
	r.none, r.emergency = place{&share{}, ""}, place{&share{rule: emergency.Rule}, ""}
	r.mu.shares, r.mu.inForce = map[string]*share{}, map[string]bool{}
	r.turn.Store(1)
	r.patterns.Store(&[]*rule.KeyPatterns{})
	r.divideLocked()
	return r
}

// Rules returns the recorder of a rule set. Denials stay as long as the set or the one before
// has their rule.
func (r *Recent) Rules(set *rule.Set) *Recorder {
	c := &Recorder{recent: r, places: make(map[*rule.Rule]place, len(set.Rules()))}
	ids := make(map[string]bool, len(set.Rules()))
	for _, one := range set.Rules() {
		ids[one.ID] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addPatternsLocked(set.KeyPatterns())
	if !sameNames(ids, r.mu.inForce) {
		r.mu.previous, r.mu.inForce = r.mu.inForce, ids
	}
	for id := range r.mu.shares {
		if !r.mu.inForce[id] && !r.mu.previous[id] {
			_, written := r.mu.shares[id].drain()
			r.mu.moved += written
			delete(r.mu.shares, id)
		}
	}
	for _, one := range set.Rules() {
		c.places[one] = r.placeLocked(one.ID)
	}
	r.divideLocked()
	return c
}

// addPatternsLocked adds the key patterns of a set. Those of the set before stay, because a path may
// show a key that only the patterns of its own set fit, and two sets are in force during a canary.
func (r *Recent) addPatternsLocked(p *rule.KeyPatterns) {
	list := []*rule.KeyPatterns{p}
	for _, old := range *r.patterns.Load() {
		if len(list) < maxPatterns && !reflect.DeepEqual(old, p) {
			list = append(list, old)
		}
	}
	r.patterns.Store(&list)
}

func sameNames(a, b map[string]bool) bool {
	if len(a) != len(b) {
		return false
	}
	for id := range a {
		if !b[id] {
			return false
		}
	}
	return true
}

// placeLocked returns the place of a rule.
func (r *Recent) placeLocked(id string) place {
	switch s := r.mu.shares[id]; {
	case id == emergency.Rule:
		return r.emergency
	case s != nil:
		return place{s, ""}
	case len(r.mu.shares) < maxShares:
		s = &share{rule: id}
		r.mu.shares[id] = s
		return place{s, ""}
	}
	if r.mu.others == nil {
		r.mu.others = &share{}
	}
	return place{r.mu.others, id}
}

// allLocked returns every share.
func (r *Recent) allLocked() []*share {
	all := []*share{r.takes.share, r.envoy.share, r.none.share, r.emergency.share}
	if r.mu.others != nil {
		all = append(all, r.mu.others)
	}
	for _, s := range r.mu.shares {
		all = append(all, s)
	}
	return all
}

// divideLocked divides the memory equally among the shares. Shares become smaller before
// others become larger, so that the bound holds meanwhile.
func (r *Recent) divideLocked() {
	all := r.allLocked()
	n := maxEntries / len(all)
	for _, grows := range []bool{false, true} {
		for _, s := range all {
			if grows == (s.size() < n) {
				r.mu.moved += s.resize(n)
			}
		}
	}
}

func (s *share) size() (n int) {
	if rings := s.rings.Load(); rings != nil {
		for i := range *rings {
			n += len((*rings)[i].entries)
		}
	}
	return n
}

// resize gives the share room for n entries, at most, and keeps the newest ones. It returns how
// many the replaced rings have had.
func (s *share) resize(n int) (moved uint64) {
	count := 1
	if n >= 2*leastRing {
		count = min(maxRings, 1<<(bits.Len(uint(n/leastRing))-1))
	}
	old := s.rings.Load()
	if old != nil && len(*old) == count && len((*old)[0].entries) == n/count {
		return 0
	}
	rings := make([]ring, count)
	for i := range rings {
		rings[i].entries = make([]entry, n/count)
	}
	kept, moved := s.drain()
	for i := range kept {
		to := &rings[kept[i].spread&uint32(count-1)]
		if len(to.entries) > 0 {
			*to.takeLocked() = kept[i]
		}
	}
	for i := range rings {
		rings[i].written = 0
	}
	s.rings.Store(&rings)
	return moved
}

// drain empties the share, and returns its entries, the oldest first, and the number of those
// that it has had in all.
func (s *share) drain() (kept []entry, written uint64) {
	old := s.rings.Load()
	if old == nil {
		return nil, 0
	}
	for i := range *old {
		var n uint64
		kept, n = (*old)[i].drain(kept)
		written += n
	}
	slices.SortStableFunc(kept, func(a, b entry) int { return byTime(&a, &b) })
	return kept, written
}
