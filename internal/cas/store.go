package cas

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/callerbudget"
	"github.com/stintdev/stint/storekit"
)

// Store is a [stint.Store] whose states are the items of a [Backend]. Make one with [New].
// It is safe for concurrent use.
type Store struct {
	options    Options
	backend    Backend
	transact   Atomic // nil: the backend has no transactions
	locker     Locker // nil: the backend has no locks
	sharded    Sharded
	transports []*transport // by shard
	lanes      *lanes
	cache      *cache

	rounds, calls sync.Pool

	writers   [3]writer // of items, of groups across identities, and of such groups of callers
	counts    counts
	callers   *callerbudget.Account
	heartbeat *heartbeat
}

// counts are the counters of a store.
type counts struct {
	done, remembered, early, lost, unknown, locked, throttled atomic.Uint64
}

// New returns a store over a backend.
func New(b Backend, o Options) *Store {
	o.setDefaults()
	s := &Store{options: o, backend: b, lanes: newLanes(), cache: newCache()}
	s.callers = callerbudget.NewAccount(s.options.CallerBytes/int64(callerbudget.Classes), callerbudget.SinceStart())
	for i := range s.writers {
		s.writers[i].id = rand.Uint64()
	}
	s.transact, _ = b.(Atomic)
	s.locker, _ = b.(Locker)
	names := []string{""}
	if s.sharded, _ = b.(Sharded); s.sharded != nil {
		names = s.sharded.Shards()
	}
	for _, name := range names {
		s.transports = append(s.transports, newTransport(s, name))
	}
	s.heartbeat = s.newHeartbeat()
	return s
}

// Take decides one claim and charges it if it is allowed.
func (s *Store) Take(ctx context.Context, claim stint.Claim) (d stint.Decision, err error) {
	if err := claim.Validate(); err != nil {
		return d, err
	}
	if ctx.Err() != nil {
		return d, storekit.Ended(ctx, false)
	}
	c := s.newCallOf(ctx, &claim)
	errs, err := storekit.PartErrors(s.take(c), 1)
	if errs != nil {
		err = errs[0]
	}
	if err != nil { // the round may still have the call
		return d, err
	}
	d = c.out[0]
	if c.done == nil { // no other goroutine has had the call
		*c = call{}
		s.calls.Put(c)
	}
	return d, nil
}

// TakeGroups decides groups, each atomically.
func (s *Store) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if err := storekit.CheckOut(groups, out); err != nil {
		return err
	}
	clear(out)
	if ctx.Err() != nil {
		return storekit.Ended(ctx, false)
	}
	p := &plan{store: s, ctx: ctx, groups: groups, out: out}
	p.run()
	return p.failed.Err()
}

// transportOf returns the transport to the shard that has a key.
func (s *Store) transportOf(key string) *transport {
	if s.sharded == nil {
		return s.transports[0]
	}
	return s.transports[s.sharded.ShardOf(key)]
}

func (s *Store) countSwaps(swaps []Swap) {
	for i := range swaps {
		if swaps[i].Outcome == Done {
			s.counts.done.Add(1)
		}
	}
}

func byKey(a, b Swap) int { return strings.Compare(a.Key, b.Key) }

// Close withdraws the node's announcement. It does not close the backend. The error is
// always nil.
func (s *Store) Close() error {
	s.heartbeat.close()
	return nil
}
