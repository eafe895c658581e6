package postgresstore

import (
	"context"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/storekit"
)

// Store is a [stint.Store] whose states live in PostgreSQL, so all nodes that use the same
// database share one count. Make one with [New]. It is safe for concurrent use. Share one
// store in a process: checks that wait at the same time then share statements.
type Store struct {
	options Options
	backend *backend
	store   *cas.Store
	end     context.CancelFunc // of the background work
}

// New returns a store and begins to connect in the background. It does not wait for the
// server. Until the server is reached, checks fail with CodeUnavailable. New returns an
// error only if the options are invalid.
func New(o Options) (*Store, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	b, err := newBackend(&o)
	if err != nil {
		return nil, err
	}
	s := &Store{options: o, backend: b, store: cas.New(b, cas.Options{
		Name: "postgresstore", Clock: o.Clock, KeepFor: o.KeepFor, Timeout: o.Timeout, Heartbeat: o.Heartbeat,
		CallerBytes: o.CallerBytes, Observer: o.Observer, Logger: o.Logger, InFlight: inFlight(o.Durable), KeepNewAlone: true,
	})}
	ctx, end := context.WithCancel(context.Background())
	s.end = end
	b.background(ctx, &o)
	return s, nil
}

// inFlight returns how many batches of reads, and of writes, are in flight. A statement costs
// the server as much as ten rows in it, so one large batch is better than two small ones. A
// commit that waits for the disk leaves the server time for a second batch.
func inFlight(durable bool) int {
	if durable {
		return 2
	}
	return 1
}

// String returns the addresses of the servers and the database, without passwords.
func (s *Store) String() string {
	if !s.made() {
		return "postgresstore: none"
	}
	return s.options.String()
}

// GoString returns String, so that no way of printing a store shows a password.
func (s *Store) GoString() string { return s.String() }

// Close closes the connections. Calls in flight fail, and later ones do with
// CodeUnavailable. The error is always nil.
func (s *Store) Close() error {
	if s.made() {
		s.end()
		_ = s.store.Close() // returns no error
		s.backend.close()
	}
	return nil
}

// made reports whether New made the store. It returns false for a nil store and for a zero
// value.
func (s *Store) made() bool { return s != nil && s.store != nil }

var errNotMade = &stint.Error{Problem: "postgresstore: the store is nil or a zero value", Mend: "make it with postgresstore.New, and look at its error"}

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

// Clear deletes the counts of all keys with the prefix of this store: it is for stores of a
// test or of a replay, which have a prefix of their own.
func (s *Store) Clear(ctx context.Context) error {
	if !s.made() {
		return errNotMade
	}
	return s.backend.clear(ctx)
}

// Stats is a snapshot of a store's counters and gauges.
type Stats struct {
	// Up says whether the server answered the last call.
	Up bool
	// Nodes is how many nodes announce themselves in the store, including this one. It is
	// 0 until the store is first reached.
	Nodes int
	// Skew is how far the server's clock is ahead of this process's, to within half a round
	// trip. Measured is when it was measured, by this process's clock; it is the zero time
	// until then.
	Skew     time.Duration
	Measured time.Time

	Swaps uint64 // rows written
	// Remembered is how many of Swaps wrote a row that this process wrote last and did not
	// read. Early is how many such writes the server refused, because its clock had not
	// reached the time of the decision: the row was then read.
	Remembered, Early uint64
	Lost              uint64 // rounds of one or more checks that found a row changed by another node, and tried again
	Unknown           uint64 // rounds whose write was not answered, and that looked for it in the row
	Locks             uint64 // rounds that locked a row, after they had lost it several times
	// Throttled is how many calls failed because another transaction held the lock of a row
	// for too long, or was first.
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
		Up: t.Up, Nodes: t.Nodes, Skew: t.Clock.Skew, Measured: t.Clock.Measured,
		Swaps: t.Swaps, Remembered: t.Remembered, Early: t.Early, Lost: t.Lost, Unknown: t.Unknown, Locks: t.Locks, Throttled: t.Throttled,
		CallerBytes: t.CallerBytes, CallersRefused: t.CallersRefused,
	}
}

// Metrics returns the numbers of Stats, and those of the connections.
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

// Shards implements [storekit.Sharded]: a store has one server, named "".
func (s *Store) Shards() storekit.Shards {
	if !s.made() {
		return nil
	}
	return s.store.Shards()
}
