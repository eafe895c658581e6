package stint_test

import (
	"context"
	"fmt"

	"github.com/stintdev/stint"
)

// printer is an observer that prints decisions and calls to the store.
type printer struct{}

func (printer) Start(ctx context.Context, _ stint.Event) context.Context { return ctx }

func (printer) Observe(_ context.Context, e stint.Event) {
	switch e.Kind {
	case stint.EventDecision:
		fmt.Println(e.Op, e.Name, e.Result, "by", e.Limit.Name())
	case stint.EventStoreCall:
		fmt.Println("called", e.Name+":", e.Result)
	}
}

// An observer of one's own: a metric needs only Observe.
func ExampleLimiter_WithObserver() {
	store := stint.ObserveStore(stint.NewMemory(stint.MemoryOptions{}), "memory", printer{})
	limiter, err := stint.NewLimiter(store, "login", stint.MustParseLimit("1/h"))
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter = limiter.WithObserver(printer{})
	_, _ = limiter.Allow(context.Background(), "user:1")
	_, _ = limiter.Allow(context.Background(), "user:1")
	// Output:
	// called memory: ok
	// take login allowed by token_bucket:1h
	// called memory: ok
	// take login denied by token_bucket:1h
}

// Two observers at once: one for metrics and one for traces, for example.
func ExampleObservers() {
	both := stint.Observers(printer{}, printer{})
	store := stint.ObserveStore(stint.NewMemory(stint.MemoryOptions{}), "memory", both)
	_, _ = store.Take(context.Background(), stint.Claim{Key: "user:1", Limit: stint.MustParseLimit("1/h"), Cost: 1})
	// Output:
	// called memory: ok
	// called memory: ok
}
