package guard

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
)

// DefaultDeadline is the default of [Options.Deadline].
const DefaultDeadline = 50 * time.Millisecond

// Options configures a [Store]. The zero value is useful.
type Options struct {
	// Deadline bounds the time of each call to the store and of each probe.
	// Defaults to DefaultDeadline. It is the deadline of the call's context,
	// which the store must honour. The caller's own deadline applies if it is
	// sooner. If the caller's context has a time by storekit.WithBegun, the
	// deadline counts from that time, but the call gets at least half of it.
	Deadline time.Duration

	// Breaker says when the store counts as failing. Nil means
	// [DefaultBreaker]. Its OnChange is called too. New overrides its
	// ProbesApart and Excuse: slow calls do not count while this process
	// itself runs late.
	Breaker *breaker.Options

	// Nodes is the number of nodes that share a limit that each decides
	// locally. Zero means the store's own count if it is a storekit.NodeCounter, and
	// 1 if it is not.
	Nodes int

	// Local returns an empty store for local decisions. Defaults to a memory
	// store that reads Clock. Under [stint.FailLastKnown] it holds, also while the
	// store works, a state for each key that the node has seen lately. Its bound on
	// keys ([stint.MemoryOptions].MaxKeys) bounds what the node knows.
	Local func() stint.Store

	// Clock returns the time of the decisions that the Store makes itself. It
	// must be safe for concurrent use. Nil is the system's clock. Deadlines
	// and the breaker always follow the system's clock.
	Clock func() time.Time

	// Logger logs when a server fails and when it answers again, and at most
	// once a minute how many charges too few replicas have confirmed. Nil logs
	// nothing.
	Logger *slog.Logger

	// Observer sees every call that is sent to the store ([stint.EventStoreCall]),
	// by shard, and every change of state of a breaker ([stint.EventBreaker]); both
	// have the name "guard". It does not see calls that a breaker refused: Stats
	// counts them. Nil costs nothing.
	Observer stint.Observer
}

// DefaultBreaker returns the default of [Options.Breaker]. The breaker opens when
// 20 calls in a row fail, when half of at least 20 calls in 3 s fail, or when 1 %
// of at least 20 calls in 3 s, and at least 3 of them, take 10 ms or longer. So
// slowness is judged from 7 calls a second: above 100 calls a second by the 1 %, and
// below by the 3 calls, because a few outliers among few calls are no slow store.
// The first probe follows after 20 ms. The wait doubles with each further probe, up
// to 250 ms.
func DefaultBreaker() breaker.Options {
	return breaker.Options{
		ConsecutiveFailures: 20,
		FailureRatio:        0.5,
		MinimumCalls:        20,
		SlowRatio:           0.01,
		SlowAfter:           10 * time.Millisecond,
		SlowMinimumCalls:    20,
		MinimumSlow:         3,
		Window:              3 * time.Second,
		OpenFor:             20 * time.Millisecond,
		Growth:              2,
		MaxOpenFor:          250 * time.Millisecond,
	}
}

func (o *Options) setDefaults() {
	if o.Deadline == 0 {
		o.Deadline = DefaultDeadline
	}
	if o.Breaker == nil {
		b := DefaultBreaker()
		o.Breaker = &b
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Local == nil {
		clock := o.Clock
		o.Local = func() stint.Store { return stint.NewMemory(stint.MemoryOptions{Clock: clock}) }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

func (o *Options) check() error {
	if o.Deadline < 0 {
		return fmt.Errorf("guard: Deadline: is %v, which is below 0", o.Deadline)
	}
	if o.Nodes < 0 {
		return fmt.Errorf("guard: Nodes: is %d, which is below 0", o.Nodes)
	}
	return nil
}
