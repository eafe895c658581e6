package dynamostore

import (
	"context"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/storekit"
)

// Store is a [stint.Store] whose states live in a table of DynamoDB, so all processes that
// use the same table share one count. Make one with [New]. It is safe for concurrent use.
// Share one store in a process: checks that wait at the same time then share calls.
type Store struct {
	options Options
	backend *backend
	store   *cas.Store
}

// New returns a store. It sends nothing: until DynamoDB is reached, checks fail with
// CodeUnavailable. New returns an error only if the options or the configuration of the SDK
// are invalid.
func New(o Options) (*Store, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	b, err := newBackend(&o)
	if err != nil {
		return nil, err
	}
	s := &Store{options: o, backend: b}
	var thin cas.Backend = transacting{b}
	if o.NoTransactions {
		thin = b
	}
	s.store = cas.New(thin, cas.Options{
		Name: "dynamostore", Clock: o.Clock, KeepFor: o.KeepFor, Timeout: o.Timeout, Heartbeat: o.Heartbeat,
		MaxBatch: maxBatch, CallerBytes: o.CallerBytes, Observer: o.Observer, Logger: o.Logger,
	})
	return s, nil
}

// String returns the URL of the table. It contains no credentials.
func (s *Store) String() string {
	if !s.made() {
		return "dynamostore: none"
	}
	return s.options.String()
}

// GoString returns String, so that no way of printing a store shows credentials.
func (s *Store) GoString() string { return s.String() }

// Close closes the connections. Calls in flight fail, and later ones do with
// CodeUnavailable. The error is always nil.
func (s *Store) Close() error {
	if s.made() {
		_ = s.store.Close() // returns no error
		s.backend.close()
	}
	return nil
}

// made reports whether New made the store. It returns false for a nil store and for a zero
// value.
func (s *Store) made() bool { return s != nil && s.store != nil }

var errNotMade = &stint.Error{Problem: "dynamostore: the store is nil or a zero value", Mend: "make it with dynamostore.New, and look at its error"}

// Take decides one claim and charges it if it is allowed.
func (s *Store) Take(ctx context.Context, claim stint.Claim) (stint.Decision, error) {
	if !s.made() {
		return stint.Decision{}, errNotMade
	}
	return s.store.Take(ctx, claim)
}

// TakeGroups decides groups, each atomically.
func (s *Store) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if !s.made() {
		return errNotMade
	}
	return s.store.TakeGroups(ctx, groups, out)
}

// Stats is a snapshot of a store's counters and gauges.
type Stats struct {
	// Up says whether DynamoDB answered the last call.
	Up bool
	// Nodes is how many processes announce themselves in the store, including this one. It
	// is 0 until the store is first reached.
	Nodes int
	// Skew is how far the clock of another process, the one furthest off, is ahead of this
	// one's, to within two heartbeats. Measured is when it was measured, by this process's
	// clock; it is the zero time until then.
	Skew     time.Duration
	Measured time.Time

	// CallerBytes is how much of Options.CallerBytes is in use. CallersRefused is how
	// many claims were refused because that budget was used up.
	CallerBytes    int64
	CallersRefused uint64

	Swaps uint64 // items written
	// Remembered is how many of Swaps wrote an item that this process wrote last and did not
	// read.
	Remembered uint64
	Lost       uint64 // rounds of one or more checks that found an item changed by another process, and tried again
	Unknown    uint64 // rounds whose write was not answered, and that looked for it in the item
	Throttled  uint64 // calls that DynamoDB refused because it gets too many
}

// Stats returns the store's current counters and gauges. It sends nothing.
func (s *Store) Stats() Stats {
	if !s.made() {
		return Stats{}
	}
	t := s.store.Stats()
	return Stats{
		Up: t.Up, Nodes: t.Nodes, Skew: t.Clock.Skew, Measured: t.Clock.Measured,
		CallerBytes: t.CallerBytes, CallersRefused: t.CallersRefused,
		Swaps: t.Swaps, Remembered: t.Remembered, Lost: t.Lost, Unknown: t.Unknown, Throttled: t.Throttled,
	}
}

// Metrics returns the numbers of Stats.
func (s *Store) Metrics() []storekit.Metric {
	if !s.made() {
		return nil
	}
	return s.store.Metrics()
}

// NodeCount implements [storekit.NodeCounter]. It returns how many processes announced
// themselves as of the last successful heartbeat, and at least 1.
func (s *Store) NodeCount() int {
	if !s.made() {
		return 1
	}
	return s.store.NodeCount()
}

// Shards implements [storekit.Sharded]: a store has one server, named "".
func (s *Store) Shards() storekit.Shards {
	if !s.made() {
		return nil
	}
	return s.store.Shards()
}
