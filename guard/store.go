package guard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/lease"
	"github.com/stintdev/stint/storekit"
)

// Store is a [stint.Store] that decides in place of the store that it wraps while
// that store fails. Make one with [New]. It is safe for use by many goroutines at
// once.
type Store struct {
	store      stint.Store
	options    Options
	shards     shards
	groupCalls sync.Pool // a pool of *groupCall

	local    atomic.Pointer[local] // nil until a claim is decided locally
	spare    spare
	nodes    func() int
	stalls   stallDetector
	degraded degradedCounts

	unconfirmed unconfirmed
}

// New returns a Store that guards the given store, which need not be reachable.
// It returns an error if an option is invalid, or if the layers are in the wrong
// order: the store is already guarded, it leases ([lease.New] wraps the guard, not
// the reverse), or it hides the shards or the node count of a store below it.
// Close the Store when it is no longer used.
func New(store stint.Store, o Options) (*Store, error) {
	if err := checkStore(store); err != nil {
		return nil, err
	}
	o.Observer = stint.Observers(o.Observer) // nil instead of a nil pointer
	o.setDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Store{store: store, options: o, nodes: nodesOf(store, o.Nodes)}
	if s.spare.store = o.Local(); storekit.Missing(s.spare.store) {
		return nil, errors.New("guard: Local: returned nil (return an empty store)")
	}
	s.stalls.init(&s.shards.background)
	if err := s.shards.init(s); err != nil {
		return nil, err
	}
	return s, nil
}

func checkStore(store stint.Store) error {
	if storekit.Missing(store) {
		return errors.New("guard: the store is nil (pass the one to guard)")
	}
	for layer := range storekit.Layers(store) {
		switch layer.(type) {
		case *Store:
			return errors.New("guard: the store is guarded already (wrap it once)")
		case *lease.Store:
			return errors.New("guard: the store leases, which hides its shards and its number of nodes (guard the store below, and lease from that: lease.New(guard.New(store)))")
		}
		if hides[storekit.Sharded](store, layer) || hides[storekit.NodeCounter](store, layer) {
			return fmt.Errorf("guard: %T hides the shards or the number of nodes of %T, which it wraps (give it the methods Shards and NodeCount of the store below, or put it around the guard; to observe calls, set Options.Observer)", store, layer)
		}
	}
	return nil
}

// hides reports whether a layer implements T and the store around it does not.
func hides[T any](store, layer stint.Store) bool {
	_, below := layer.(T)
	_, above := store.(T)
	return below && !above
}

// Unwrap returns the guarded store, and nil for a nil Store.
func (s *Store) Unwrap() stint.Store {
	if s == nil {
		return nil
	}
	return s.store
}

// made reports whether New made the store: it is neither nil nor a zero value.
func (s *Store) made() bool { return s != nil && s.store != nil }

var errNotMade = &stint.Error{Problem: "guard: the store is nil or a zero value", Mend: "make it with guard.New, and look at its error"}

func nodesOf(store stint.Store, nodes int) func() int {
	if c, ok := store.(storekit.NodeCounter); ok && nodes == 0 {
		return c.NodeCount
	}
	return func() int { return max(1, nodes) }
}

// Close ends the probes and waits for those in flight. It does not close the
// guarded store. A breaker that is open stays open.
func (s *Store) Close() error {
	if !s.made() {
		return nil
	}
	s.shards.background.close()
	return nil
}

// Take decides one claim in the store. If the store gives no decision, the claim's
// failure policy decides.
func (s *Store) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	if !s.made() {
		return stint.Decision{}, errNotMade
	}
	shard, err := s.shards.of(c)
	if err != nil {
		return stint.Decision{}, err
	}
	call, ok := shard.begin()
	if !ok {
		return s.degradeClaim(c, outcome{shard: shard, err: errRefused})
	}
	callCtx := &callContext{Context: s.observeStart(ctx, shard.name, 1), call: call, within: s.within(ctx)}
	d, err := s.store.Take(callCtx, c)
	callCtx.end()
	if err == nil {
		call.Success()
		s.observeEnd(callCtx, shard.name, 1, nil)
		if s.settles(&c) {
			s.settle(&c, &d, d.Allowed)
		}
		return d, nil
	}
	found := classify(ctx, err)
	shard.report(call, found, err)
	s.observeEnd(callCtx, shard.name, 1, err)
	if !found.degrades() {
		return stint.Decision{}, err
	}
	if found == classRule {
		s.noteUnconfirmed(err)
	}
	return s.degradeClaim(c, outcome{shard: shard, err: err})
}

// layer is the name of this layer in events.
const layer = "guard"

// observeStart reports the start of a call to the store. It returns the context of the
// call.
func (s *Store) observeStart(ctx context.Context, shard string, claims int) context.Context {
	if s.options.Observer != nil {
		ctx = s.startEvent(ctx, shard, claims)
	}
	return ctx
}

// observeEnd reports a call to the store that has ended. The breaker knows the outcome
// already, so a panic of the observer does not keep it from the breaker.
func (s *Store) observeEnd(c *callContext, shard string, claims int, err error) {
	if s.options.Observer != nil {
		s.endEvent(c, shard, claims, err)
	}
}

func (s *Store) startEvent(ctx context.Context, shard string, claims int) context.Context {
	return s.options.Observer.Start(ctx, stint.Event{Kind: stint.EventStoreCall, Name: layer, Shard: shard, Claims: claims})
}

func (s *Store) endEvent(c *callContext, shard string, claims int, err error) {
	e := stint.Event{Kind: stint.EventStoreCall, Name: layer, Shard: shard, Claims: claims}
	e.EndStoreCall(c.call.Elapsed(), err)
	s.options.Observer.Observe(c.Context, e)
}

// retryAfter returns the time to the next probe, rounded up to a microsecond. While
// a probe is in flight it returns the deadline, by which the probe has ended.
func (s *Store) retryAfter(shard *shard) time.Duration {
	if wait := shard.retryAfter(); wait > 0 {
		return wait.Truncate(time.Microsecond) + time.Microsecond
	}
	return s.options.Deadline
}
