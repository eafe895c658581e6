package redisstore

import (
	"context"
	"sync"

	"github.com/stintdev/stint"
)

// Store is a [stint.Store] whose states live in Redis or Valkey: every node
// that asks the same servers decides alike. Make one with [New]. It is safe for
// use by many goroutines at once, and is best shared by all of a process: checks
// that wait at the same time travel together.
//
// At most two flights of 256 claims each are in the air to one server (and to
// each number of replicas that claims ask for), so that is the most that a
// frozen server can still hold. A check leaves at once while there are fewer,
// unless one is about to leave that it can go with. A check whose context ends
// while it waits to be sent is never sent; once it was sent its outcome is
// unknown, and it is not repeated. Of a check in the air a cancel may go
// unnoticed where a deadline is less than 100 ms away, until that.
type Store struct {
	options  Options
	topology *topology
	encoding *encoding
	calls    callPool
	plans    sync.Pool
}

// New returns a store and begins to connect. It does not wait for a server and
// needs none: until one is reached, checks fail with CodeUnavailable. The error
// says what is wrong with the options.
func New(o Options) (*Store, error) {
	s := &Store{options: o}
	err := s.options.setDefaults()
	if err != nil {
		return nil, err
	}
	if s.encoding, err = newEncoding(&s.options); err != nil {
		return nil, err
	}
	s.topology = newTopology(&s.options, s.encoding.scripts()...)
	return s, nil
}

// String returns where the servers are, without passwords.
func (s *Store) String() string {
	if !s.made() {
		return "redisstore: none"
	}
	return s.options.String()
}

// GoString is String, so that no way of printing a store shows a password.
func (s *Store) GoString() string { return s.String() }

// Close ends the connections. Calls that wait fail with CodeUnavailable, and
// so do those that come. The error is nil.
func (s *Store) Close() error {
	if s.made() {
		s.topology.close()
	}
	return nil
}

// made reports whether New made the store: it is neither nil nor a zero value.
func (s *Store) made() bool { return s != nil && s.topology != nil }

var errNotMade = &stint.Error{Problem: "redisstore: the store is nil or a zero value", Mend: "make it with redisstore.New, and look at its error"}

// Take decides one claim and charges it when allowed.
func (s *Store) Take(ctx context.Context, claim stint.Claim) (d stint.Decision, err error) {
	if !s.made() {
		return d, errNotMade
	}
	if err = claim.Validate(); err != nil {
		return d, err
	}
	if claim.Limit.FromCaller() {
		if err = s.encoding.admit(&claim); err != nil {
			return d, err
		}
	}
	if ctx.Err() != nil {
		return d, endedUnsent(ctx)
	}
	slot := s.slotOfClaim(&claim)
	l := s.batcherOf(slot, replicasOfClaim(&claim))
	if quickClaim(&claim) && l.replicas == 0 && patient(ctx) {
		if d, flew, err := l.takeSingle(ctx, &claim); flew {
			return d, err
		}
	}
	c := s.calls.get()
	c.slot = slot
	c.addOne(&claim)
	l.send(ctx, c, true)
	if err = c.wait(ctx); err != nil {
		return d, err
	}
	if err = c.errs[0]; err == nil {
		d = c.out[0]
	}
	s.calls.put(c)
	return d, err
}

// batcherOf returns the lane to the server that keeps a slot.
func (s *Store) batcherOf(slot uint16, replicas uint8) *batcher {
	n := s.topology.nodeOf(slot)
	return n.batchers.of(n, s, replicas)
}

// slotOfClaim returns the slot of a claim; away from a Cluster all is one slot.
func (s *Store) slotOfClaim(claim *stint.Claim) uint16 {
	if s.options.Topology != Cluster {
		return 0
	}
	return s.encoding.slotOf(claim)
}

// slotOf returns the slot of the first claim, and whether all are of it.
func (s *Store) slotOf(claims []stint.Claim) (slot uint16, one bool) {
	slot = s.slotOfClaim(&claims[0])
	for i := range claims[1:] {
		if s.slotOfClaim(&claims[1+i]) != slot {
			return slot, false
		}
	}
	return slot, true
}
