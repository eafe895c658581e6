package cas

import (
	"time"

	"github.com/stintdev/stint/storekit"
)

// Stats is a snapshot of a store's counters and gauges.
type Stats struct {
	// Up says whether every server answered the last call to it.
	Up bool
	// Nodes is how many nodes announce themselves in the store, including this one. It is
	// 0 until the store is first reached.
	Nodes int
	// Clock is the zero value until a heartbeat has measured it.
	Clock ClockStats

	// CallerBytes is how much of Options.CallerBytes is in use. CallersRefused is how
	// many claims were refused because that budget was used up.
	CallerBytes    int64
	CallersRefused uint64

	Swaps      uint64 // items written
	Remembered uint64 // of Swaps, rounds that did not read the item, because the node wrote it last
	Early      uint64 // rounds that did not read the item and had to, because the server's clock was behind the time of their decision
	Lost       uint64 // rounds that found another version, and tried again
	Unknown    uint64 // rounds whose swap was not answered, and that looked for it
	Locks      uint64 // rounds that locked their items
	Throttled  uint64 // calls that a server refused because it gets too many
}

// Stats returns the store's current counters and gauges. It asks no server.
func (s *Store) Stats() Stats {
	h := &s.heartbeat.mu
	h.Lock()
	defer h.Unlock()
	st := Stats{
		Up: true, Nodes: h.nodes, Clock: h.clock,
		CallerBytes: s.callers.Bytes(), CallersRefused: s.callers.Refused.Load(),
		Swaps: s.counts.done.Load(), Remembered: s.counts.remembered.Load(), Early: s.counts.early.Load(), Lost: s.counts.lost.Load(), Unknown: s.counts.unknown.Load(),
		Locks: s.counts.locked.Load(), Throttled: s.counts.throttled.Load(),
	}
	for _, t := range s.transports {
		st.Up = st.Up && t.up.Load() && !t.stopped.Load()
	}
	return st
}

// Metrics returns the numbers of Stats, and those of the backend if it has some.
func (s *Store) Metrics() []storekit.Metric {
	t := s.Stats()
	up := 0.0
	if t.Up {
		up = 1
	}
	skew := storekit.Metric{Name: "clock_skew_seconds", Help: "How far the clock of the store, or of another node where the store has none, is ahead of this process's.", Label: "shard"}
	measured := storekit.Metric{Name: "clock_skew_measured_timestamp_seconds", Help: "When that clock was last measured, in Unix seconds.", Label: "shard"}
	if !t.Clock.Measured.IsZero() {
		skew.Samples = []storekit.Sample{{Value: t.Clock.Skew.Seconds()}}
		measured.Samples = []storekit.Sample{{Value: seconds(t.Clock.Measured)}}
	}
	all := []storekit.Metric{
		skew, measured,
		storekit.Gauge("store_up", "1 while the store answers.", up),
		storekit.Gauge("store_nodes", "Nodes that share the store; 0 until it is first reached.", float64(t.Nodes)),
		storekit.Gauge("caller_bytes", "Upper bound on the bytes in the store for limits that callers bring, of what this node wrote.", float64(t.CallerBytes)),
		storekit.Counter("caller_refused", "Claims on limits that callers bring, refused because their room or budget was used up.", t.CallersRefused),
		{Name: "store_swaps", Help: "Conditional writes, by their outcome.", Counter: true, Label: "outcome", Samples: []storekit.Sample{
			{Label: "done", Value: float64(t.Swaps)}, {Label: "early", Value: float64(t.Early)}, {Label: "lost", Value: float64(t.Lost)}, {Label: "unknown", Value: float64(t.Unknown)},
		}},
		storekit.Counter("store_locks", "Rounds that locked an item, after they had lost it several times.", t.Locks),
		storekit.Counter("store_throttled", "Calls that the store refused because it gets too many.", t.Throttled),
	}
	if b, ok := s.backend.(storekit.Metered); ok {
		all = append(all, b.Metrics()...)
	}
	return all
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// NodeCount implements [storekit.NodeCounter]. It returns how many nodes announced
// themselves as of the last successful heartbeat, and at least 1.
func (s *Store) NodeCount() int { return max(1, s.Stats().Nodes) }
