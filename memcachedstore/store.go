package memcachedstore

import (
	"context"
	"sync"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/storekit"
)

// Store is a [stint.Store] whose states live in Memcached, so all nodes that use the same
// servers share one count. Make one with [New]. It is safe for concurrent use. Share one
// store in a process: checks that wait at the same time then share round trips.
type Store struct {
	options Options
	backend *backend
	store   *cas.Store
	end     context.CancelFunc // of the background work
	ended   sync.WaitGroup
}

// New returns a store and begins to connect in the background. It does not wait for the
// servers. Until a server is reached, checks of its keys fail with CodeUnavailable. New
// returns an error only if the options are invalid.
func New(o Options) (*Store, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	b := newBackend(&o)
	s := &Store{options: o, backend: b, store: cas.New(b, cas.Options{
		Name: "memcachedstore", Clock: o.Clock, KeepFor: o.KeepFor, Timeout: o.Timeout, Heartbeat: o.Heartbeat,
		CallerBytes: o.CallerBytes, Observer: o.Observer, Logger: o.Logger,
	})}
	ctx, end := context.WithCancel(context.Background())
	s.end = end
	w := &evictionWatch{backend: b, timeout: o.Timeout, log: o.Logger, counts: map[string]uint64{}}
	s.ended.Go(func() { w.run(ctx) })
	return s, nil
}

// String returns the addresses of the servers.
func (s *Store) String() string {
	if !s.made() {
		return "memcachedstore: none"
	}
	return s.options.String()
}

// Close closes the connections. Calls in flight fail, and later ones do with
// CodeUnavailable. The error is always nil.
func (s *Store) Close() error {
	if s.made() {
		s.end()
		_ = s.store.Close() // returns no error
		s.backend.close()
		s.ended.Wait()
	}
	return nil
}

// made reports whether New made the store. It returns false for a nil store and for a zero
// value.
func (s *Store) made() bool { return s != nil && s.store != nil }

var errNotMade = &stint.Error{Problem: "memcachedstore: the store is nil or a zero value", Mend: "make it with memcachedstore.New, and look at its error"}

// Take decides one claim and charges it if it is allowed.
func (s *Store) Take(ctx context.Context, claim stint.Claim) (stint.Decision, error) {
	if !s.made() {
		return stint.Decision{}, errNotMade
	}
	return s.store.Take(ctx, claim)
}

// TakeGroups decides groups. A group on one key is charged as one; see the package comment
// for groups across keys.
func (s *Store) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if !s.made() {
		return errNotMade
	}
	return s.store.TakeGroups(ctx, groups, out)
}

// Stats is a snapshot of a store's counters and gauges.
type Stats struct {
	// Up says whether every server answered the last call to it.
	Up bool
	// Nodes is how many nodes announce themselves in the store, including this one. It is
	// 0 until the store is first reached.
	Nodes int
	// Skew is how far the clock of another node, the one furthest off, is ahead of this
	// process's, to within two heartbeats. Measured is when it was measured; it is the zero
	// time until then.
	Skew     time.Duration
	Measured time.Time
	// Evictions is how many items each server has evicted to make room since it started,
	// by its address. A key whose item was evicted has its whole allowance again.
	Evictions map[string]uint64

	Swaps uint64 // items written
	// Remembered is how many of Swaps wrote an item that this process wrote last and did not
	// read.
	Remembered uint64
	Lost       uint64 // rounds of one or more checks that found an item changed by another node, and tried again
	Unknown    uint64 // rounds whose write was not answered, and that looked for it in the item
	Locks      uint64 // rounds that locked an item, after they had lost it several times
	// Throttled is how many calls a server refused because it gets too many. Memcached does
	// not do so, so it is 0.
	Throttled uint64

	// CallerBytes is how much of Options.CallerBytes is in use. CallersRefused is how many
	// groups were refused because that budget was used up.
	CallerBytes    int64
	CallersRefused uint64
}

// Stats returns the store's current counters and gauges. It asks no server.
func (s *Store) Stats() Stats {
	if !s.made() {
		return Stats{}
	}
	t := s.store.Stats()
	return Stats{
		Up: t.Up, Nodes: t.Nodes, Skew: t.Clock.Skew, Measured: t.Clock.Measured, Evictions: s.backend.evictions(),
		Swaps: t.Swaps, Remembered: t.Remembered, Lost: t.Lost, Unknown: t.Unknown, Locks: t.Locks, Throttled: t.Throttled,
		CallerBytes: t.CallerBytes, CallersRefused: t.CallersRefused,
	}
}

// Metrics returns the numbers of Stats.
func (s *Store) Metrics() []storekit.Metric {
	if !s.made() {
		return nil
	}
	return s.store.Metrics()
}

// NodeCount implements [storekit.NodeCounter]. It returns how many nodes announced
// themselves as of the last successful heartbeat, and at least 1.
func (s *Store) NodeCount() int {
	if !s.made() {
		return 1
	}
	return s.store.NodeCount()
}

// Shards implements [storekit.Sharded]. A shard is a server, named by its address.
func (s *Store) Shards() storekit.Shards {
	if !s.made() {
		return nil
	}
	return s.store.Shards()
}
