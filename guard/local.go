package guard

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/boundedcache"
	"github.com/stintdev/stint/internal/clock"
)

// local decides in memory while the store fails, each limit at this node's share of it.
//
// A store that fails and recovers repeatedly must not grant the share anew each time.
// So the state survives a recovery until nothing charged to it counts any more, and the
// next failure continues from it. Until then, claims that the store admits are charged
// here too: otherwise the share would refill while the store is up. The price is one
// decision in memory for each such claim.
type local struct {
	store    stint.Store
	until    atomic.Int64 // the latest reset time of the decisions made here, in µs; 0: none counts
	shares   *shares      // shares of the limits of rules and programs
	callers  *shares      // of limits that callers bring: apart, so that new ones evict no rule's share
	knows    atomic.Bool  // the state has knowledge for FailLastKnown, and is never dropped
	learning stripes
}

// shares caches this node's shares of limits. The zero limit: too slow to be divided.
type shares = boundedcache.Cache[portion, stint.Limit]

// portion is a limit and the number of nodes that share it.
type portion struct {
	limit stint.Limit
	nodes int
}

// maxShares bounds each of the two caches of shares.
const maxShares = 10_000

// spare is an empty store, made in advance for the next failure. Making one takes as
// long as a whole check may take while the store fails.
type spare struct {
	sync.Mutex

	store stint.Store // nil: in use
}

// openLocal returns the local state, and creates it at the beginning of a failure.
func (s *Store) openLocal() *local {
	if l := s.local.Load(); l != nil {
		return l
	}
	s.spare.Lock()
	defer s.spare.Unlock()
	if l := s.local.Load(); l != nil {
		return l
	}
	store := s.spare.store
	if s.spare.store = nil; store == nil {
		store = s.options.Local()
	}
	l := &local{
		store:   store,
		shares:  boundedcache.New[portion, stint.Limit](maxShares),
		callers: boundedcache.New[portion, stint.Limit](maxShares),

		learning: stripes{seed: maphash.MakeSeed()},
	}
	s.local.Store(l)
	return l
}

// extend extends until to the reset time of a decision. The first decision of a failure
// starts the goroutine that awaits the end of until.
func (s *Store) extend(l *local, d *stint.Decision) {
	until := d.At + d.ResetAfter.Microseconds()
	for old := l.until.Load(); old < until; old = l.until.Load() {
		if !l.until.CompareAndSwap(old, until) {
			continue
		}
		if old == 0 {
			s.shards.background.run(func(ctx context.Context) { s.expireLocal(ctx, l) })
		}
		return
	}
}

// expireLocal ends the local state once the store is up and no local decision counts any
// more.
func (s *Store) expireLocal(ctx context.Context, l *local) {
	for left := time.Duration(0); pause(ctx, min(max(left, time.Second), time.Hour)); {
		if left = s.untilReset(l); left <= 0 && s.shards.up() && s.endLocal(l) {
			return
		}
	}
}

// endLocal drops the local state. If the state has knowledge for FailLastKnown, endLocal
// only ends the charges for other claims. It returns false if a claim was decided
// meanwhile.
func (s *Store) endLocal(l *local) bool {
	if !l.knows.Load() {
		return s.dropLocal(l)
	}
	until := l.until.Load()
	return until <= s.now() && l.until.CompareAndSwap(until, 0)
}

// now returns the time of a decision, in microseconds since the Unix epoch.
func (s *Store) now() int64 { return clock.Micros(s.options.Clock()) }

// untilReset returns the time until no local decision counts any more.
func (s *Store) untilReset(l *local) time.Duration {
	return time.Duration(l.until.Load()-s.now()) * time.Microsecond
}

// dropLocal drops the local state, and prepares an empty store for the next failure.
// It returns false, and keeps the state, if a claim was decided or learned from meanwhile.
// A check that still uses a dropped state notices it and decides again.
func (s *Store) dropLocal(l *local) bool {
	fresh := s.options.Local()
	s.spare.Lock()
	defer s.spare.Unlock()
	s.local.Store(nil)
	if s.untilReset(l) > 0 || l.knows.Load() {
		s.local.Store(l)
		return false
	}
	s.spare.store = fresh
	return true
}

// dropped reports whether a local state is not the one in use.
func (s *Store) dropped(l *local) bool { return s.local.Load() != l }

// share returns this node's share of a limit, and false if the limit is too slow to be
// divided.
func (l *local) share(limit stint.Limit, nodes int) (stint.Limit, bool) {
	if nodes <= 1 {
		return limit, true
	}
	known := l.shares
	if limit.FromCaller() {
		known = l.callers
	}
	p := portion{limit, nodes}
	share, ok := known.Get(p)
	if !ok {
		share, _ = limit.Share(nodes) // an error comes with the zero limit
		known.Put(p, share)
	}
	return share, share.Valid()
}

// counts reports whether a local decision still counts.
func (l *local) counts() bool { return l.until.Load() != 0 }

// chargeAdmitted charges the local state with what the store has admitted of a claim under
// FailLocal. It skips a claim with a local limit of its own, which the store's decisions
// do not use.
func (l *local) chargeAdmitted(c *stint.Claim, d *stint.Decision, nodes int) {
	if c.Local != nil {
		return
	}
	in, ok := l.localClaim(c, nodes)
	if ok && c.Cost >= 0 { // the store may admit more at once than the share: then all of it is used
		in.Cost, in.Extra, in.MaxDelay = 0, min(c.Cost+d.Granted, stint.MaxCost), 0
	}
	if ok && (in.Cost != 0 || in.Extra != 0) {
		_, _ = l.store.Take(context.Background(), in)
	}
}

// localClaim returns the claim that is decided locally in place of c. It returns false if
// the limit is too slow to be divided among the nodes.
func (l *local) localClaim(c *stint.Claim, nodes int) (in stint.Claim, ok bool) {
	in = stint.Claim{Key: c.Key, Cost: c.Cost, At: c.At, MaxDelay: c.MaxDelay, AnyOf: c.AnyOf}
	if c.Local == nil || c.Policy.OnFailure != stint.FailLocal {
		in.Limit, ok = l.share(c.Limit, nodes)
		return in, ok
	}
	in.Limit = c.Local.Limit
	if c.Local.Key != "" {
		in.Key = c.Local.Key
	}
	return in, true
}

// takeLocal decides one claim in memory. It denies a claim whose limit is too slow to
// be divided among the nodes.
func (s *Store) takeLocal(c stint.Claim, sh *shard) (stint.Decision, error) {
	l := s.openLocal()
	in, ok := l.localClaim(&c, s.nodes())
	if !ok {
		return s.denied(&c, sh), nil
	}
	d, err := l.store.Take(context.Background(), in)
	s.extend(l, &d)
	if s.dropped(l) {
		return s.takeLocal(c, sh)
	}
	d.Degraded = true
	s.degradedOf(sh).countLocal(c.Policy.OnFailure)
	return d, err
}

// localClaims holds the claims that are decided locally in place of one part's claims.
type localClaims struct {
	group [1]stint.Group
	of    []int // by claim of the part: the index of its local claim; below 0: it has none
	out   []stint.Decision
}

// takeLocal decides a part of a group by its claims with FailLocal and FailLastKnown, which
// are decided as one group in memory. If one of them has no share, the part is denied. dry
// charges nothing.
func (gc *groupCall) takeLocal(claims []stint.Claim, out []stint.Decision, sh *shard, dry bool) error {
	l, in := gc.guard.openLocal(), &gc.locals
	if !in.gather(l, claims, gc.guard.nodes()) {
		for i := range claims {
			out[i] = gc.guard.denied(&claims[i], sh)
		}
		return nil
	}
	in.group[0].Dry = dry
	if err := l.store.TakeGroups(context.Background(), in.group[:], in.out); err != nil {
		return err
	}
	for i := range in.out {
		gc.guard.extend(l, &in.out[i])
	}
	if gc.guard.dropped(l) {
		return gc.takeLocal(claims, out, sh, dry)
	}
	for i := range claims {
		if in.of[i] < 0 {
			out[i] = gc.guard.unused(&claims[i])
			continue
		}
		out[i] = in.out[in.of[i]]
		out[i].Degraded = true
		gc.guard.degradedOf(sh).countLocal(claims[i].Policy.OnFailure)
	}
	return nil
}

// gather collects the local claims of a part. Claims that share a local key and limit
// (a rule's own local limit replaces all of its limits) become one claim, with the
// greatest cost and the smallest MaxDelay. It returns false if any claim has no local
// limit.
func (in *localClaims) gather(l *local, claims []stint.Claim, nodes int) (ok bool) {
	locals := in.group[0].Claims[:0]
	in.of = in.of[:0]
	for i := range claims {
		c := &claims[i]
		if !decidesLocally(c.Policy.OnFailure) {
			in.of = append(in.of, -1)
			continue
		}
		one, ok := l.localClaim(c, nodes)
		if !ok {
			return false
		}
		at := indexOf(locals, &one)
		if at == len(locals) {
			locals = append(locals, one)
		}
		locals[at].Cost = max(locals[at].Cost, one.Cost)
		locals[at].MaxDelay = lesserDelay(locals[at].MaxDelay, one.MaxDelay)
		in.of = append(in.of, at)
	}
	in.group[0].Claims = locals
	in.out = append(in.out[:0], make([]stint.Decision, len(locals))...)
	return true
}

// lesserDelay returns the smaller of two values of [stint.Claim.MaxDelay], where zero
// means no bound.
func lesserDelay(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// indexOf returns the index of the claim with the same key and limit, or len(claims).
func indexOf(claims []stint.Claim, c *stint.Claim) int {
	for i := range claims {
		if claims[i].Key == c.Key && claims[i].Limit == c.Limit {
			return i
		}
	}
	return len(claims)
}
