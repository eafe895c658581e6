package layered

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/lease"
	"github.com/stintdev/stint/storekit"
)

// Options configures a [Store]. The zero value configures it as stint serve does by
// default.
type Options struct {
	// Guard configures the deadline of calls, the circuit breakers, and the decisions
	// while the base store fails.
	Guard guard.Options
	// Lease configures the leases. They decide only claims whose policy asks for them
	// ([stint.Leased] and [stint.Partitioned]).
	Lease lease.Options
	// Logger is the logger of each layer whose own options name none. Nil logs nothing.
	Logger *slog.Logger
	// Observer sees the calls of each layer whose own options name none: those of the
	// guard, and the round trips of a client that redisopen or remoteopen makes. Nil
	// costs nothing.
	Observer stint.Observer
	// Wait makes New, and the functions Open that call it, wait until the base store
	// serves checks. If the context ends before, they return the error of the last
	// attempt. Without Wait they return at once and need no reachable server: until
	// one is reached, the failure policy of each claim decides.
	Wait bool
	// KeepOpen leaves the base store open when the Store is closed. Use it for a base
	// store that other parts of the program use too.
	KeepOpen bool
}

// Store is a [stint.Store] of three layers: leases over a guard over a base store. Make
// one with [New]. It is safe for concurrent use. Share one in the whole process.
type Store struct {
	base     stint.Store
	guard    *guard.Store
	lease    *lease.Store
	keepOpen bool

	close  sync.Once
	closed error // result of Close
}

// New returns a Store over the given base store, which need not be reachable. The
// context bounds only the wait that Options.Wait asks for; the Store outlives it.
//
// The Store owns the base store, unless Options.KeepOpen is set: if the base store is an
// [io.Closer], Close closes it, and so does New if it returns an error. New returns an
// error if an option is invalid, or if the base store is guarded or leases already.
func New(ctx context.Context, base stint.Store, o Options) (*Store, error) {
	if o.Guard.Logger == nil {
		o.Guard.Logger = o.Logger
	}
	if o.Guard.Observer == nil {
		o.Guard.Observer = o.Observer
	}
	s := &Store{base: base, keepOpen: o.KeepOpen || storekit.Missing(base)}
	var err error
	if s.guard, err = guard.New(base, o.Guard); err == nil {
		s.lease, err = lease.New(s.guard, o.Lease)
	}
	if err == nil && o.Wait {
		err = s.awaitReady(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.closeLayers())
	}
	return s, nil
}

// pingInterval is the pause between two attempts to reach the base store.
const pingInterval = 50 * time.Millisecond

// awaitReady waits until the base store serves checks.
func (s *Store) awaitReady(ctx context.Context) error {
	for tick := time.Tick(pingInterval); ; {
		err := s.Ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("layered: the store is not ready: %w: %w", ctx.Err(), err)
		case <-tick:
		}
	}
}

// made reports whether New made the store: it is neither nil nor a zero value.
func (s *Store) made() bool { return s != nil && s.lease != nil }

var errNotMade = &stint.Error{Problem: "layered: the store is nil or a zero value", Mend: "make it with New, or with Open of package redisopen or remoteopen, and look at the error"}

// Take decides one claim.
func (s *Store) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	if !s.made() {
		return stint.Decision{}, errNotMade
	}
	return s.lease.Take(ctx, c)
}

// TakeGroups decides groups of claims.
func (s *Store) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if !s.made() {
		return errNotMade
	}
	return s.lease.TakeGroups(ctx, groups, out)
}

// Ping returns nil if the base store serves checks now. It asks the base store itself,
// so neither a lease nor the guard answers in its place: by the base store's own method
// Ping(context.Context) error if it has one, and by a check that costs nothing if it
// does not.
func (s *Store) Ping(ctx context.Context) error {
	if !s.made() {
		return errNotMade
	}
	for layer := range storekit.Layers(s.base) {
		if p, ok := layer.(interface {
			Ping(ctx context.Context) error
		}); ok {
			return p.Ping(ctx)
		}
	}
	limit, err := stint.ParseLimit("1/s")
	if err == nil {
		_, err = s.base.Take(ctx, stint.Claim{Key: "ping", Limit: limit})
	}
	return err
}

// Up reports whether the guard's breaker of every server lets calls through. It asks no
// server, and is true before the first failure; see [Store.Ping].
func (s *Store) Up() bool { return s.made() && s.guard.Up() }

// Stats are the statistics of the layers. The base store has its own: see [Store.Base].
type Stats struct {
	Guard guard.Stats
	Lease lease.Stats
}

// Stats returns the current statistics of the layers.
func (s *Store) Stats() Stats {
	if !s.made() {
		return Stats{}
	}
	return Stats{Guard: s.guard.Stats(), Lease: s.lease.Stats()}
}

// Base returns the store below the layers, such as a *redisstore.Store, and nil for a
// Store that New did not make.
func (s *Store) Base() stint.Store {
	if !s.made() {
		return nil
	}
	return s.base
}

// Unwrap returns the topmost layer, the leases. Its own Unwrap returns the guard. It is
// nil for a Store that New did not make.
func (s *Store) Unwrap() stint.Store {
	if !s.made() {
		return nil
	}
	return s.lease
}

// Close refunds the tokens of leases, ends the guard's probes, and closes the base store
// (see [New]), in this order. Only the first call does; every call returns its error.
func (s *Store) Close() error {
	if !s.made() {
		return nil
	}
	s.close.Do(func() { s.closed = s.closeLayers() })
	return s.closed
}

// closeLayers closes the layers that were made, from the top.
func (s *Store) closeLayers() error {
	err := errors.Join(s.lease.Close(), s.guard.Close())
	if base, ok := s.base.(io.Closer); ok && !s.keepOpen {
		err = errors.Join(err, base.Close())
	}
	return err
}
