package quorumstore

import (
	"context"
	"sync"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/storekit"
)

// Store is a [stint.Store] whose states a majority of servers agrees on, so all processes
// that use the same servers share one count. Make one with [New]. It is safe for concurrent
// use. Share one store in a process: checks that wait at the same time then share round trips.
type Store struct {
	options Options
	servers []*redisServer
	backend *backend
	store   *cas.Store
	end     context.CancelFunc // of the background work
	ended   sync.WaitGroup
}

// New returns a store and begins to connect in the background. It does not wait for the
// servers. Until a majority of them is reached, checks fail with CodeUnavailable. New
// returns an error only if the options are invalid.
func New(o Options) (*Store, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	s := &Store{options: o}
	s.backend, s.servers = s.options.connect()
	s.store = cas.New(s.backend, s.options.loop(s.backend.slack))
	ctx, end := context.WithCancel(context.Background())
	s.end = end
	s.ended.Go(func() { s.backend.maintain(ctx) })
	return s, nil
}

// loop returns the options of the loop around the servers.
//
// A key stays for as long as a group that may be repeated is remembered. Otherwise a write of such a group
// that one server alone has could outlive the writes of others, which did not see its charge, and be found
// by the repeat.
func (o *Options) loop(slack time.Duration) cas.Options {
	return cas.Options{
		Name: "quorumstore", Clock: o.Clock, KeepFor: max(o.KeepFor, stint.RememberFor), Timeout: o.Timeout, Heartbeat: o.Heartbeat, KeepNew: true,
		Slack:       slack, // two processes that hear other servers may be as far apart
		CallerBytes: o.CallerBytes, Observer: o.Observer, Logger: o.Logger,
	}
}

// connect returns the backend of the options, and the clients of its servers. It sends
// nothing.
func (o *Options) connect() (b *backend, clients []*redisServer) {
	var servers []server
	for _, address := range o.Servers {
		s := newRedisServer(address, o)
		servers, clients = append(servers, s), append(clients, s)
	}
	return newBackend(servers, backendOptions{Timeout: o.Timeout, Clock: o.Clock, Logger: o.Logger}), clients
}

// String returns the addresses of the servers, without passwords.
func (s *Store) String() string {
	if !s.made() {
		return "quorumstore: none"
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
		for _, server := range s.servers {
			server.close()
		}
		s.ended.Wait()
	}
	return nil
}

// made reports whether New made the store. It returns false for a nil store and for a zero
// value.
func (s *Store) made() bool { return s != nil && s.store != nil }

var errNotMade = &stint.Error{Problem: "quorumstore: the store is nil or a zero value", Mend: "make it with quorumstore.New, and look at its error"}

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
	// Up says whether a majority of the servers answered the last call.
	Up bool
	// Nodes is how many processes announce themselves in the store, including this one. It
	// is 0 until the store is first reached.
	Nodes int
	// Skew is how far the clock of the quorum is ahead of this process's. Measured is when
	// it was measured; it is the zero time until then.
	Skew     time.Duration
	Measured time.Time

	// Servers are the servers, in the order of Options.Servers.
	Servers []ServerStats

	// CallerBytes is how much of Options.CallerBytes is in use. CallersRefused is how
	// many claims were refused because that budget was used up.
	CallerBytes    int64
	CallersRefused uint64

	Swaps      uint64 // keys written
	Remembered uint64 // of Swaps, those of a key that this process wrote last and did not read
	Early      uint64 // rounds whose write came to servers before the time of its decision, and that read the key
	Lost       uint64 // rounds of one or more checks that found a key changed by another process, and tried again
	Unknown    uint64 // rounds whose write was not answered by enough servers, and that looked for it
}

// Stats returns the store's current counters and gauges. It asks no server.
func (s *Store) Stats() Stats {
	if !s.made() {
		return Stats{}
	}
	t := s.store.Stats()
	return Stats{
		Up: t.Up, Nodes: t.Nodes, Skew: t.Clock.Skew, Measured: t.Clock.Measured, Servers: s.backend.serverStats(),
		CallerBytes: t.CallerBytes, CallersRefused: t.CallersRefused,
		Swaps: t.Swaps, Remembered: t.Remembered, Early: t.Early, Lost: t.Lost, Unknown: t.Unknown,
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

// Shards implements [storekit.Sharded]: a quorum is one shard, named "".
func (s *Store) Shards() storekit.Shards {
	if !s.made() {
		return nil
	}
	return s.store.Shards()
}
