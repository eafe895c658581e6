package cas

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/stintdev/stint"
)

// Options configures a [Store]. The package of a backend fills them in.
type Options struct {
	// Name is the name of the package of the backend, such as "postgresstore". It is the
	// name of events and begins the text of errors.
	Name string
	// Clock returns the time of decisions, which the store rounds down to a microsecond.
	// It must be safe for concurrent use. Nil means the server's clock, and on a backend
	// without one the clock of this process.
	Clock func() time.Time
	// Timeout bounds each call of the backend. 0 means 1 s.
	Timeout time.Duration
	// KeepFor is the least time for which an item is kept. It is for a Clock that runs
	// slower than the server's, or back, as those of tests do.
	KeepFor time.Duration
	// Slack is how much longer than its states an item is kept, and a state than it counts, for
	// clocks that differ: by that of another node it may still count. 0 means 5 s.
	Slack time.Duration
	// MaxBatch is the greatest number of keys in one call of the backend. 0 means 128.
	MaxBatch int
	// InFlight is the greatest number of batches of loads, and of batches of swaps, in flight
	// to a shard. 0 means 2.
	InFlight int
	// KeepNew says that the node remembers an item that it has created. Otherwise it remembers
	// those alone that it has written twice in a row, because another node may write a new
	// item next. It suits a backend whose write after a read is dear.
	KeepNew bool
	// KeepNewAlone is KeepNew while no other node has announced itself.
	KeepNewAlone bool
	// Heartbeat is how often the node announces itself. 0 means 1 s; below 0 means never.
	Heartbeat time.Duration
	// CallerBytes bounds the bytes that this node writes for limits that callers bring
	// ([stint.Spec.FromCaller]). Beyond it, new keys of such limits are refused with
	// CodeExhausted; all other limits are not affected. Each of four lifetime classes has a
	// quarter of it. 0 means 256 MiB.
	CallerBytes int64
	// Observer sees every call of the backend as a [stint.EventStoreCall]. Nil costs
	// nothing.
	Observer stint.Observer
	// Logger receives messages about problems that an operator should fix. Nil means no
	// logging.
	Logger *slog.Logger
}

func (o *Options) setDefaults() {
	o.Timeout = cmp.Or(o.Timeout, time.Second)
	o.Slack = cmp.Or(o.Slack, 5*time.Second)
	o.MaxBatch = cmp.Or(o.MaxBatch, 128)
	o.CallerBytes = cmp.Or(o.CallerBytes, 256<<20)
	o.Heartbeat = cmp.Or(o.Heartbeat, time.Second)
	o.Observer = stint.Observers(o.Observer) // nil instead of a nil pointer
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}
