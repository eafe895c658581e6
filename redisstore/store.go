package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// Store is a [stint.Store] whose states live in Redis or Valkey, so all nodes that
// use the same servers share one count. Make one with [New]. It is safe for
// concurrent use. Share one store in a process: checks that wait at the same time
// then share a round trip.
//
// At most two batches of 256 claims each are in flight to one server, for each
// number of replicas that claims ask for. A frozen server therefore holds no more
// than that. A check is sent at once while fewer batches are in flight, unless
// another batch is about to be sent and can carry it. A check whose context ends
// before it is sent is never sent. Once a check is sent and its context ends, its
// outcome is unknown, and the store does not repeat it. If the context's deadline
// is less than 100 ms away when a check is sent, a cancellation may go unnoticed
// until that deadline.
type Store struct {
	options  Options
	topology *topology
	encoding *encoding
	calls    pendingPool
	plans    sync.Pool
}

// New returns a store and begins to connect in the background. It does not wait for
// a server. Until a server is reached, checks fail with CodeUnavailable. New returns
// an error only if the options are invalid.
func New(o Options) (*Store, error) {
	s := &Store{options: o}
	err := s.options.setDefaults()
	if err != nil {
		return nil, err
	}
	if s.encoding, err = newEncoding(&s.options); err != nil {
		return nil, err
	}
	s.options.Observer = stint.Observers(o.Observer) // nil instead of a nil pointer
	s.topology = newTopology(&s.options, s.encoding.scripts()...)
	return s, nil
}

// String returns the addresses of the servers, without passwords.
func (s *Store) String() string {
	if !s.made() {
		return "redisstore: none"
	}
	return s.options.String()
}

// GoString returns String, so that no way of printing a store shows a password.
func (s *Store) GoString() string { return s.String() }

// Close closes the connections. Calls that are queued and later calls fail with
// CodeUnavailable. The error is always nil.
func (s *Store) Close() error {
	if s.made() {
		s.topology.close()
	}
	return nil
}

// made reports whether New made the store. It returns false for a nil store and for
// a zero value.
func (s *Store) made() bool { return s != nil && s.topology != nil }

var errNotMade = &stint.Error{Problem: "redisstore: the store is nil or a zero value", Mend: "make it with redisstore.New, and look at its error"}

// Take decides one claim and charges it if it is allowed.
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
		return d, storekit.Ended(ctx, false)
	}
	slot := s.slotOfClaim(&claim)
	replicas := replicasOfClaim(&claim)
	own := replicas == 0 && patient(ctx)
	b := s.batcherOf(slot, replicas)
	if own && quickClaim(&claim) && b.TryAcquire() {
		return b.takeSingle(ctx, &claim)
	}
	c := s.calls.get()
	c.slot = slot
	c.addOne(&claim)
	b.Send(ctx, &c.Call, own)
	if err = s.calls.await(ctx, c); err != nil {
		return d, err
	}
	if err = c.errs[0]; err == nil {
		d = c.out[0]
	}
	s.calls.put(c)
	return d, err
}

// batcherOf returns the batcher for the server that owns slot and for a number of
// replicas.
func (s *Store) batcherOf(slot uint16, replicas uint8) *batcher {
	n := s.topology.nodeOf(slot)
	return n.batchers.of(n, s.encoding, replicas)
}

// slotOfClaim returns the hash slot of a claim. Without a Cluster all claims are in
// slot 0.
func (s *Store) slotOfClaim(claim *stint.Claim) uint16 {
	if s.options.Topology != Cluster {
		return 0
	}
	return s.encoding.slotOf(claim)
}

// slotOf returns the slot of the first claim, and whether all claims are in it.
func (s *Store) slotOf(claims []stint.Claim) (slot uint16, one bool) {
	slot = s.slotOfClaim(&claims[0])
	for i := range claims[1:] {
		if s.slotOfClaim(&claims[1+i]) != slot {
			return slot, false
		}
	}
	return slot, true
}

// Stats is a snapshot of a store's counters and gauges.
type Stats struct {
	// NoScript is how many calls found their script missing on the server and were
	// sent again with the script's text.
	NoScript uint64
	// Clocks has the clock of each server that has keys and has answered a heartbeat, by
	// the name of its shard.
	Clocks []ClockStats
	// Nodes is how many nodes announce themselves in the store, including this one.
	// It is 0 until the store is first reached.
	Nodes int
	// CallerBytes is how much of Options.CallerBytes is in use. CallersRefused is how
	// many groups were refused because that budget was used up.
	CallerBytes    int64
	CallersRefused uint64
	// OnceBytes is how much of Options.OnceBytes is in use. OnceRefused is how many
	// groups with a stint.Once were refused because that budget was used up.
	OnceBytes   int64
	OnceRefused uint64
	// Up says whether the store is connected to every server that has keys.
	Up bool
}

// ClockStats compares the clock of a server with this process's clock, or with
// Options.Clock.
type ClockStats struct {
	Shard    string        // address of the server in a Cluster; "" in a store of one server
	Skew     time.Duration // how far the server's clock is ahead, to within half a round trip
	Measured time.Time     // when the last heartbeat measured it, by this process's clock
}

// Stats returns the store's current counters and gauges. It asks no server.
func (s *Store) Stats() Stats {
	if !s.made() {
		return Stats{}
	}
	t := s.topology
	return Stats{
		NoScript: uint64(t.dialer.noScript.Load()),
		Clocks:   t.clockStats(),
		Nodes:    int(t.heartbeat.nodes.Load()),
		Up:       t.up(),

		CallerBytes:    s.encoding.callers.Bytes(),
		CallersRefused: s.encoding.callers.Refused.Load(),
		OnceBytes:      s.encoding.records.Bytes(),
		OnceRefused:    s.encoding.records.Refused.Load(),
	}
}

func (t *topology) clockStats() (all []ClockStats) {
	for _, n := range t.all() {
		if last, ok := n.clocks.latest(); ok {
			all = append(all, ClockStats{n.name, last.skew, last.at})
		}
	}
	return all
}

// Metrics returns the numbers of Stats.
func (s *Store) Metrics() []storekit.Metric {
	t := s.Stats()
	up := 0.0
	if t.Up {
		up = 1
	}
	skew := storekit.Metric{Name: "clock_skew_seconds", Help: "How far the clock of a server of the store is ahead of this process's.", Label: "shard"}
	measured := storekit.Metric{Name: "clock_skew_measured_timestamp_seconds", Help: "When that clock was last measured, in Unix seconds.", Label: "shard"}
	for _, c := range t.Clocks {
		skew.Samples = append(skew.Samples, storekit.Sample{Label: c.Shard, Value: c.Skew.Seconds()})
		measured.Samples = append(measured.Samples, storekit.Sample{Label: c.Shard, Value: float64(c.Measured.UnixMilli()) / 1000})
	}
	return []storekit.Metric{
		skew, measured,
		storekit.Gauge("store_up", "1 while the store is connected to its servers.", up),
		storekit.Counter("noscript", "Calls that found their script missing in the store.", t.NoScript),
		storekit.Gauge("store_nodes", "Nodes that share the store; 0 until it is first reached.", float64(t.Nodes)),
		storekit.Gauge("caller_bytes", "Upper bound on the bytes in the store for limits that callers bring, of what this node wrote.", float64(t.CallerBytes)),
		storekit.Gauge("once_bytes", "Upper bound on the bytes in the store for groups that may be repeated, of what this node wrote.", float64(t.OnceBytes)),
		storekit.Counter("once_refused", "Groups that may be repeated, refused because the budget for them was used up.", t.OnceRefused),
		storekit.Counter("caller_refused", "Claims on limits that callers bring, refused because their room or budget was used up.", t.CallersRefused),
	}
}

// NodeCount implements [storekit.NodeCounter]. It returns how many nodes announced
// themselves as of the last successful heartbeat, and at least 1.
func (s *Store) NodeCount() int {
	if !s.made() {
		return 1
	}
	return max(1, int(s.topology.heartbeat.nodes.Load()))
}
