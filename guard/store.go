package guard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/wrapped"
	"github.com/stintdev/stint/lease"
)

// Store is a [stint.Store] that answers for the one it wraps while that
// fails. Make one with [New]. It is safe for use by many goroutines at once.
type Store struct {
	store   stint.Store
	options Options
	shards  shards
	rounds  sync.Pool // of *round

	local    atomic.Pointer[local] // nil while nothing was decided locally
	spare    spare
	nodes    func() int
	stalls   stallDetector
	degraded degradedCounts
}

// Sharded is a store that spreads its keys over several servers, each of
// which may fail alone. A store that is not Sharded is one shard, named "",
// and probed by a peek.
type Sharded interface {
	// ShardOf returns the server that the claim's key lives on; "" in a store
	// of one server. The claim is valid, and must not be kept.
	ShardOf(c *stint.Claim) string

	// Probe asks the server something harmless, and returns an error unless
	// it could serve a check. It is called while the shard is stopped.
	Probe(ctx context.Context, shard string) error
}

// Stopper is a store that can be told to leave a server alone.
type Stopper interface {
	// Stop closes the connections to a server, so that nothing more is sent.
	// It may be called again for a shard that is stopped.
	Stop(shard string)
	// Start ends a Stop.
	Start(shard string)
}

// NodeCounter is a store that knows how many nodes use it, and that remembers
// it while the store cannot be reached.
type NodeCounter interface {
	NodeCount() int // at least 1
}

// New returns a store that guards another one, which need not be reachable.
// That one is not guarded already, does not lease ([lease.New] goes around the
// guard) and hides no shards or number of nodes. The error is of that order, or
// of the options. Close it when it is no longer used.
func New(store stint.Store, o Options) (*Store, error) {
	if err := checkStore(store); err != nil {
		return nil, err
	}
	o.setDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Store{store: store, options: o, nodes: nodesOf(store, o.Nodes)}
	if s.spare.store = o.Local(); wrapped.Missing(s.spare.store) {
		return nil, errors.New("guard: Local: returned nil (return an empty store)")
	}
	s.stalls.init(&s.shards.background)
	if err := s.shards.init(s); err != nil {
		return nil, err
	}
	return s, nil
}

func checkStore(store stint.Store) error {
	if wrapped.Missing(store) {
		return errors.New("guard: the store is nil (pass the one to guard)")
	}
	for layer := range wrapped.Layers(store) {
		switch layer.(type) {
		case *Store:
			return errors.New("guard: the store is guarded already (wrap it once)")
		case *lease.Store:
			return errors.New("guard: the store leases, which hides its shards and its number of nodes (guard the store below, and lease from that: lease.New(guard.New(store)))")
		}
		if hides[Sharded](store, layer) || hides[NodeCounter](store, layer) {
			return fmt.Errorf("guard: %T hides the shards or the number of nodes of %T, which it wraps (guard that one, and wrap the guard)", store, layer)
		}
	}
	return nil
}

// hides reports whether a store lacks what a layer below it has.
func hides[T any](store, layer stint.Store) bool {
	_, below := layer.(T)
	_, above := store.(T)
	return below && !above
}

// Unwrap returns the store that this one guards; nil of a nil Store.
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
	if c, ok := store.(NodeCounter); ok && nodes == 0 {
		return c.NodeCount
	}
	return func() int { return max(1, nodes) }
}

// Close ends the probes and waits for those in flight. It does not close the
// store that it guards. A shard that was failing stays so.
func (s *Store) Close() error {
	if !s.made() {
		return nil
	}
	s.shards.background.close()
	return nil
}

// Take decides one claim in the store, or as its policy says.
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
	v := &visit{Context: ctx, call: call, within: s.within(ctx)}
	d, err := s.store.Take(v, c)
	s.leave(v, err)
	if err == nil {
		call.Success()
		if l := s.local.Load(); l != nil {
			l.admitted(&c, &d, s.nodes())
		}
		return d, nil
	}
	blame := classify(ctx, err)
	shard.report(call, blame, err)
	if !blame.degrades() {
		return stint.Decision{}, err
	}
	return s.degradeClaim(c, outcome{shard: shard, err: err})
}

// leave ends a visit to the store.
func (s *Store) leave(v *visit, err error) {
	v.end()
	if s.options.OnCall != nil {
		s.options.OnCall(v.call.Elapsed(), err)
	}
}

// retryAfter is when to ask again: at the next probe, or when the one in
// flight must have ended.
func (s *Store) retryAfter(shard *shard) time.Duration {
	if wait := shard.retryAfter(); wait > 0 {
		return wait.Truncate(time.Microsecond) + time.Microsecond
	}
	return s.options.Deadline
}
