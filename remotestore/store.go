// Package remotestore is a [stint.Store] that keeps its states in a Stint server. All
// programs that use the same server share their limits.
//
// Use [New] where several processes share limits and a Stint server can keep the counts.
// Where the counts must survive a restart of that server, let the server keep them in
// Redis. The protocol is stint.v1 over gRPC; the server listens for it at --grpc of
// stint serve.
//
// The package promises what every store promises; package storetest checks it over the
// wire. It never sends a claim twice: a claim whose outcome is unknown is an error.
// Package remoteopen opens it with a guard, which decides while the server cannot be
// reached, and with leases.
package remotestore

import (
	"context"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/internal/coalesce"
	"github.com/stintdev/stint/storekit"
)

// Store is a [stint.Store] that keeps its states in a Stint server. Make one with
// [New]. It is safe for concurrent use. Share one store in the whole process: claims
// that wait at the same time travel in one round trip.
//
// A claim is sent at once when no other call of this process is at the server. At most
// two calls are at the server at a time, plus two of claims that wait for replicas. A
// call that times out makes room for the next, yet a server that was frozen may still
// execute it when it resumes; the circuit breaker of a guard bounds how many such
// calls there are. A claim whose context ends while it waits is never sent. Once a
// claim is sent and its context ends, its outcome is unknown; it is not sent again.
type Store struct {
	options Options
	conn    *grpc.ClientConn
	client  stintv1.LimiterServiceClient
	batcher *batcher
	waiting *batcher // of calls that wait for replicas of the server's store; separate, so that they delay no other calls
	limits  limitMessages
	calls   sync.Pool // a pool of *pending
	closed  atomic.Bool
	refused atomic.Bool // the server refused the last call; see note
}

// batcher combines the calls of many goroutines into few round trips.
type batcher = coalesce.Batcher[pending, *inFlight]

// New returns a store and starts to connect in the background. It does not wait for
// the server: until the server is reached, claims fail with CodeUnavailable. The error
// reports invalid options.
func New(o Options) (*Store, error) {
	s := &Store{options: o, limits: newLimitMessages()}
	if err := s.options.setDefaults(); err != nil {
		return nil, err
	}
	s.options.Observer = stint.Observers(o.Observer) // nil instead of a nil pointer
	conn, err := connect(s)
	if err != nil {
		return nil, &stint.Error{Code: stint.CodeInvalid, Kind: "options", Problem: "remotestore: Addr", Err: err}
	}
	s.conn, s.client = conn, stintv1.NewLimiterServiceClient(conn)
	full := coalesce.Options{Full: maxClaims} // never split: a request costs far more than its claims
	s.batcher, s.waiting = coalesce.New(full, s.newInFlight), coalesce.New(full, s.newInFlight)
	conn.Connect()
	return s, nil
}

// String returns the URL of the server, without the token.
func (s *Store) String() string {
	if !s.made() {
		return "remotestore: none"
	}
	return s.options.String()
}

// made reports whether New made the store. It is false for nil and for the zero value.
func (s *Store) made() bool { return s != nil && s.conn != nil }

var errNotMade = &stint.Error{Problem: "remotestore: the store is nil or a zero value", Mend: "make it with remotestore.New, and look at its error"}

// GoString is String: no way of printing a store shows its token.
func (s *Store) GoString() string { return s.String() }

// Close closes the connection. Waiting calls and later calls fail with
// CodeUnavailable.
func (s *Store) Close() error {
	if !s.made() || s.closed.Swap(true) {
		return nil
	}
	return s.conn.Close()
}

// Up reports whether the store is connected to a server that accepts its calls. It is
// false after the server refused the token, or does not implement stint.v1.
func (s *Store) Up() bool {
	return s.made() && s.conn.GetState() == connectivity.Ready && !s.refused.Load()
}

// note records the status of each call to the server, for Up.
func (s *Store) note(c codes.Code) {
	s.refused.Store(c == codes.Unauthenticated || c == codes.Unimplemented)
}

// Take decides one claim and charges it when allowed.
func (s *Store) Take(ctx context.Context, claim stint.Claim) (stint.Decision, error) {
	if !s.made() {
		return stint.Decision{}, errNotMade
	}
	if err := claim.Validate(); err != nil {
		return stint.Decision{}, err
	}
	c := s.borrow()
	c.addOne(claim)
	if err := s.send(ctx, c); err != nil {
		return stint.Decision{}, err
	}
	d, err := c.out[0], c.errorOf(0)
	s.release(c)
	return d, err
}

// TakeGroups decides the groups one after the other. Groups that do not fit into one
// call to the server are sent in several calls, each after the answer to the one
// before.
func (s *Store) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if !s.made() {
		return errNotMade
	}
	if err := storekit.CheckOut(groups, out); err != nil {
		return err
	}
	j := split{store: s, groups: groups, out: out}
	return j.run(ctx)
}

// Queued returns the number of calls that wait to be sent, those that wait for replicas
// included. It may be called at any time.
func (s *Store) Queued() int {
	if !s.made() {
		return 0
	}
	return s.batcher.Queued() + s.waiting.Queued()
}

// Metrics returns the store's numbers for an exporter.
func (s *Store) Metrics() []storekit.Metric {
	up := 0.0
	if s.Up() {
		up = 1
	}
	return []storekit.Metric{
		storekit.Gauge("store_up", "1 while the store is connected to its servers.", up),
		storekit.Gauge("store_queued", "Calls that wait to be sent.", float64(s.Queued())),
	}
}

// send sends a call, alone or in a batch, and returns when its decisions are in c.out.
// The error is that of the whole call; errors of single groups are in c.errs. After an
// error the call must not be reused, because a batch may still hold it.
func (s *Store) send(ctx context.Context, c *pending) error {
	if ctx.Err() != nil {
		return storekit.Ended(ctx, false)
	}
	s.batcherOf(c).Send(ctx, &c.Call, true)
	switch c.Wait(ctx) {
	case coalesce.Withdrawn:
		return storekit.Ended(ctx, false)
	case coalesce.Abandoned:
		return storekit.Ended(ctx, true)
	}
	return c.err
}

// batcherOf returns the batcher for a call: the field waiting if one of its claims takes tokens
// and waits for replicas, and the field batcher if not.
func (s *Store) batcherOf(c *pending) *batcher {
	for i := range c.claims {
		if claim := &c.claims[i]; claim.Policy.Replicas > 0 && claim.Cost >= 0 && claim.Cost+claim.Extra > 0 {
			return s.waiting
		}
	}
	return s.batcher
}

func (s *Store) borrow() *pending {
	if c, ok := s.calls.Get().(*pending); ok {
		return c
	}
	c := &pending{}
	c.Init(c)
	return c
}

// release puts a call back into the pool. No batch may hold it any more.
func (s *Store) release(c *pending) {
	clear(c.claims)
	c.claims, c.groups, c.out = c.claims[:0], c.groups[:0], c.out[:0]
	c.bytes, c.errs, c.err = 0, nil, nil
	if cap(c.claims) <= 2*maxClaims {
		s.calls.Put(c)
	}
}
