package guard

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
)

// DefaultDeadline is how long a call may take where Options say nothing.
const DefaultDeadline = 50 * time.Millisecond

// Options configures a [Store]. The zero value is useful.
type Options struct {
	// Deadline is how long a call to the store may take, and a probe.
	// Defaults to DefaultDeadline. It travels as the deadline of the call's
	// context, which the store must honour. A caller's own, when it is
	// sooner, holds instead. Where that context has a method Begun() time.Time,
	// the check began then, and half of the deadline is left of it at least.
	Deadline time.Duration

	// Breaker says when the store counts as failing. Nil means
	// [DefaultBreaker]. Its OnChange is called too; ProbesApart and Excuse
	// are always set: a call is not slow while this process itself runs late.
	Breaker *breaker.Options

	// Nodes is how many nodes share a limit that each decides locally. Zero
	// asks the store, if it can tell ([NodeCounter]), else it is 1.
	Nodes int

	// Local returns an empty store for local decisions. Defaults to a memory
	// store that reads Clock.
	Local func() stint.Store

	// Clock returns now in microseconds since the Unix epoch. Defaults to
	// the wall clock.
	Clock func() int64

	// Logger is told when a server fails and when it answers again. Nil
	// means silence.
	Logger *slog.Logger

	// OnCall is told of every call to the store, and of none that was not
	// made: how long it took, and its error, which may be a
	// [*stint.GroupsError]. It runs on the caller's goroutine. Nil costs
	// nothing.
	OnCall func(took time.Duration, err error)

	// OnChange is told of every change of state of a shard, in order, with
	// the breaker's lock held: be quick, and do not call the Store.
	OnChange func(shard string, c breaker.Change)
}

// DefaultBreaker is how a store is judged unless Options say otherwise: it
// fails when 20 calls in a row fail, when half of at least 20 calls in 3 s do,
// or when for 3 s 1 % of at least 100 calls take 10 ms or longer. It is probed
// after 20 ms, then after twice as long each time, up to 250 ms.
func DefaultBreaker() breaker.Options {
	return breaker.Options{
		ConsecutiveFailures: 20,
		FailureRatio:        0.5,
		MinimumCalls:        20,
		SlowRatio:           0.01,
		SlowAfter:           10 * time.Millisecond,
		SlowMinimumCalls:    100,
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
		o.Clock = func() int64 { return time.Now().UnixMicro() }
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
