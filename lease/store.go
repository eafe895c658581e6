package lease

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// Store is a [stint.Store] that leases from the one it wraps. Make one with
// [New]. It is safe for use by many goroutines at once.
type Store struct {
	store      partitionedStore
	clock      clock
	off        bool  // there are no leases
	time       int64 // the lease time L
	tick       int64
	seed       maphash.Seed
	shards     []shard
	partitions partitions
	groupCalls sync.Pool

	renewals queue
	renewed  atomic.Uint64
	closing  chan struct{}
	ended    chan struct{}
	close    sync.Once
}

// New returns a Store that leases from the given store, which may be guarded. It
// returns an error if the given store leases already or if an option is invalid.
// Close the Store before the one that it leases from.
func New(store stint.Store, o Options) (*Store, error) {
	if err := check(store); err != nil {
		return nil, err
	}
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	s := &Store{
		off: o.Time < 0, time: o.Time.Microseconds(), tick: o.Time.Microseconds() / ticks,
		partitions: newPartitions(), closing: make(chan struct{}), ended: make(chan struct{}),
	}
	s.clock.began = time.Now()
	s.store = partitionedStore{store, &s.partitions}
	s.newShards(o.MaxKeys)
	if s.off {
		close(s.ended) // there is nothing to renew
		return s, nil
	}
	go s.run()
	return s, nil
}

func check(store stint.Store) error {
	if storekit.Missing(store) {
		return errors.New("lease: the store is nil (pass the one to lease from)")
	}
	for layer := range storekit.Layers(store) {
		if _, ok := layer.(*Store); ok {
			return errors.New("lease: the store leases already (wrap it once)")
		}
	}
	return nil
}

// Unwrap returns the store that this one leases from, and nil for a nil Store.
func (s *Store) Unwrap() stint.Store {
	if s == nil {
		return nil
	}
	return s.store.store
}

// made reports whether New made the store: it is neither nil nor a zero value.
func (s *Store) made() bool { return s != nil && s.shards != nil }

var errNotMade = &stint.Error{Problem: "lease: the store is nil or a zero value", Mend: "make it with lease.New, and look at its error"}

// now returns the node's time. It starts at two lease times, so that the zero value
// of a [mark] is never recent.
func (s *Store) now() int64 { return s.clock.now() + 2*s.time }

// mayLease reports whether a lease may decide a claim, provided that the claim is
// valid. Invalid claims go to the store, which reports the error.
func mayLease(c *stint.Claim) bool {
	return c.Policy.Consistency != stint.Strict && c.Cost > 0 && c.Extra == 0 && c.AnyOf == 0 &&
		c.Limit.Valid() && c.Limit.Algorithm() != stint.LeakyBucket
}

// Take decides one claim. It needs no call to the store if the claim is leased and
// this node holds enough tokens or remembers a denial.
func (s *Store) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	if !s.made() {
		return stint.Decision{}, errNotMade
	}
	return s.take(ctx, &c)
}

func (s *Store) take(ctx context.Context, c *stint.Claim) (stint.Decision, error) {
	if s.off || !mayLease(c) || c.Validate() != nil {
		return s.passthrough(ctx, c)
	}
	sh, hash := s.locate(c)
	now := s.now()
	sh.Lock()
	e := sh.find(c)
	if e == nil {
		return s.takeCold(ctx, sh, hash, c, now)
	}
	e.demand.add(c.Cost, now, e.size.ahead)
	d, _, ok := s.decide(sh, e, c.Cost, now)
	if ok || e.inFlight == nil {
		return s.finish(ctx, sh, e, c, d, ok)
	}
	answered, begun := e.inFlight, time.Now()
	sh.Unlock()
	await(ctx, answered, min(s.time/shareOfWait, maxWait))
	ctx = storekit.WithBegun(ctx, begun)
	sh.Lock()
	d, _, ok = s.decide(sh, e, c.Cost, s.now())
	return s.finish(ctx, sh, e, c, d, ok)
}

// finish unlocks the shard, and asks the store if the claim is not decided.
func (s *Store) finish(ctx context.Context, sh *shard, e *entry, c *stint.Claim, d stint.Decision, ok bool) (stint.Decision, error) {
	if !ok {
		return s.ask(ctx, sh, e, c)
	}
	sh.Unlock()
	return d, nil
}

// A check waits for another check's call in flight for at most L/shareOfWait, and
// never longer than maxWait microseconds. After that it makes its own call.
const (
	shareOfWait = 20
	maxWait     = 5_000
)

func await(ctx context.Context, answered <-chan struct{}, micros int64) {
	timer := time.NewTimer(time.Duration(micros) * time.Microsecond)
	defer timer.Stop()
	select {
	case <-answered:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// decide answers from the tokens in hand or a remembered denial. It queues the key for
// renewal when its tokens run low.
func (s *Store) decide(sh *shard, e *entry, cost, now int64) (d stint.Decision, from *grant, ok bool) {
	d, from, ok = e.decide(cost, now)
	switch {
	case !ok:
	case d.Allowed:
		sh.count.local++
		if !e.queued && e.inFlight == nil && now >= e.cached.until && e.isLow(now) {
			e.queued = true
			s.renewals.push(sh, e)
		}
	default:
		sh.count.denied++
	}
	return d, from, ok
}

// ask sends a claim to the store, with the extra tokens that the key wants. It unlocks
// the shard.
func (s *Store) ask(ctx context.Context, sh *shard, e *entry, c *stint.Claim) (stint.Decision, error) {
	sent := s.now()
	first := e.begin(c, sent, true)
	sh.count.asked++
	sh.Unlock()
	defer sh.wake(e, first) // deferred, because other checks wait even if the store panics
	d, err := s.store.Take(ctx, *c)
	if err != nil {
		return d, err
	}
	sh.Lock()
	defer sh.Unlock()
	return sh.learn(e, d, c, sent, s.now()), nil
}

// wake wakes the checks that wait for this call's answer, if it is the first.
func (sh *shard) wake(e *entry, first bool) {
	if first {
		sh.Lock()
		defer sh.Unlock()
		e.end()
	}
}

// begin adds the wanted extra tokens to a claim. It returns true if there are any;
// other checks of the key then wait for the answer.
func (e *entry) begin(c *stint.Claim, now int64, anyway bool) bool {
	if e.inFlight != nil || e.place == removed {
		return false
	}
	if c.Extra = e.wants(now, anyway); c.Extra == 0 {
		return false
	}
	e.inFlight = make(chan struct{})
	return true
}

func (e *entry) end() {
	close(e.inFlight)
	e.inFlight = nil
}

// learn stores the extra tokens of a decision, and returns the decision without them.
func (sh *shard) learn(e *entry, d stint.Decision, c *stint.Claim, sent, received int64) stint.Decision {
	e.learn(&d, c.Cost, c.Extra, sent, received)
	sh.count.granted += uint64(d.Granted)
	d.Remaining += d.Granted
	d.Granted = 0
	return d
}

// takeCold decides a claim of a key that has no entry. It unlocks the shard.
func (s *Store) takeCold(ctx context.Context, sh *shard, hash uint64, c *stint.Claim, now int64) (stint.Decision, error) {
	if e := s.track(sh, hash, c, now); e != nil {
		e.demand.add(c.Cost, now, e.size.ahead)
		return s.ask(ctx, sh, e, c)
	}
	sh.count.asked++
	sh.Unlock()
	return s.store.Take(ctx, *c)
}

// track adds an entry for a key that is seen for the second time within two lease
// times. It returns nil on the first, if there are too many keys, and if the limit is
// too small for leases.
func (s *Store) track(sh *shard, hash uint64, c *stint.Claim, now int64) *entry {
	hash ^= maphash.Comparable(s.seed, c.Limit)
	t := sh.tracker(c.Limit)
	if !t.seenAgain(hash, now, s.time) || t.hot >= t.most {
		return nil
	}
	limit, life := c.Limit, s.time
	if isPartitioned(c) {
		part := s.partitions.of(limit)
		limit, life = part.limit, part.life
	}
	if life == 0 {
		return nil
	}
	return sh.add(c, newSize(limit, life, s.time, s.tick), now)
}
