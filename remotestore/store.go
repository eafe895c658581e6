package remotestore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
)

// Store is a [stint.Store] whose states live in a Stint server. Make one with
// [New]. It is safe for use by many goroutines at once, and is best shared by
// all of a process: claims that wait at the same time travel together.
//
// A claim leaves at once when this process has nothing on its way to the
// server. At most two calls are on their way at a time, and two more that ask for
// replicas; one that is given up
// makes room for the next, and a server that froze may still get it when it
// wakes. The breaker of a guard bounds how many those are. A claim whose context
// ends while it waits is never sent; once it was sent its outcome is unknown, and
// it is not repeated.
type Store struct {
	options Options
	conn    *grpc.ClientConn
	client  stintv1.LimiterServiceClient
	batcher batcher
	waiting batcher // of the calls that wait for replicas of the server's store, so that nobody else waits for those
	limits  limitMessages
	calls   sync.Pool // of *call
	closed  atomic.Bool
	refused atomic.Bool // the last call, whatever it asked for
}

// New returns a store and begins to connect. It does not wait for the server
// and needs none: until it is reached, claims fail with CodeUnavailable. The
// error says what is wrong with the options.
func New(o Options) (*Store, error) {
	s := &Store{options: o}
	if err := s.options.setDefaults(); err != nil {
		return nil, err
	}
	conn, err := connect(s)
	if err != nil {
		return nil, &stint.Error{Code: stint.CodeInvalid, Kind: "options", Problem: "remotestore: Addr", Err: err}
	}
	s.conn, s.client = conn, stintv1.NewLimiterServiceClient(conn)
	s.batcher.store, s.waiting.store = s, s
	conn.Connect()
	return s, nil
}

// String returns where the server is, without the token.
func (s *Store) String() string {
	if !s.made() {
		return "remotestore: none"
	}
	return s.options.String()
}

// made reports whether New made the store: it is neither nil nor a zero value.
func (s *Store) made() bool { return s != nil && s.conn != nil }

var errNotMade = &stint.Error{Problem: "remotestore: the store is nil or a zero value", Mend: "make it with remotestore.New, and look at its error"}

// GoString is String, so that no way of printing a store shows its token.
func (s *Store) GoString() string { return s.String() }

// Close ends the connection. Calls that wait fail with CodeUnavailable, and so
// do those that come.
func (s *Store) Close() error {
	if !s.made() || s.closed.Swap(true) {
		return nil
	}
	return s.conn.Close()
}

// Up reports whether there is a connection to a server that takes calls: one
// that wants another token, or speaks no stint.v1, takes none.
func (s *Store) Up() bool {
	return s.made() && s.conn.GetState() == connectivity.Ready && !s.refused.Load()
}

// note hears how each call to the server ended.
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
	if err := s.batcherOf(c).carry(ctx, c); err != nil {
		return stint.Decision{}, err
	}
	d, err := c.out[0], c.errorOf(0)
	s.release(c)
	return d, err
}

// TakeGroups decides the groups one after the other. Those that do not fit into
// one call to the server travel in several, each sent when the one before was
// answered.
func (s *Store) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if !s.made() {
		return errNotMade
	}
	if n := countClaims(groups); n != len(out) {
		return &stint.Error{Code: stint.CodeInvalid, Problem: fmt.Sprintf("out: has room for %d decisions, and there are %d claims", len(out), n), Mend: "pass one for each claim"}
	}
	j := split{store: s, groups: groups, out: out, admitted: true}
	return j.run(ctx)
}

// batcherOf returns the lane that a call travels in.
func (s *Store) batcherOf(c *call) *batcher {
	for i := range c.claims {
		if claim := &c.claims[i]; claim.Policy.Replicas > 0 && claim.Cost >= 0 && claim.Cost+claim.Extra > 0 {
			return &s.waiting
		}
	}
	return &s.batcher
}

func countClaims(groups []stint.Group) (n int) {
	for i := range groups {
		n += len(groups[i].Claims)
	}
	return n
}

func (s *Store) borrow() *call {
	if c, ok := s.calls.Get().(*call); ok {
		return c
	}
	return &call{done: make(chan struct{}, 1)}
}

// release takes a call back that nobody else holds any more.
func (s *Store) release(c *call) {
	clear(c.claims)
	*c = call{claims: c.claims[:0], groups: c.groups[:0], out: c.out[:0], done: c.done}
	if cap(c.claims) <= 2*maxClaims {
		s.calls.Put(c)
	}
}
