package stintotel_test

import (
	"context"
	"fmt"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/contrib/stintotel"
)

// One Telemetry serves a whole program. Without options it reports to the global
// providers, which the program sets with otel.SetMeterProvider and
// otel.SetTracerProvider.
func ExampleNew() {
	limiter, err := newLimiter(stintotel.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		d, err := limiter.Allow(context.Background(), "user:1")
		fmt.Println(d.Allowed, err)
	}
	// Output:
	// true <nil>
	// true <nil>
	// false <nil>
}

func newLimiter(o stintotel.Options) (*stint.Limiter, error) {
	telemetry, err := stintotel.New(o)
	if err != nil {
		return nil, err
	}
	store := stint.NewMemory(stint.MemoryOptions{})
	if err := telemetry.WatchStore("limits", store); err != nil {
		return nil, err
	}
	limiter, err := stint.NewLimiter(store, "login", stint.MustParseLimit("2/h"))
	if err != nil {
		return nil, err
	}
	return limiter.WithObserver(telemetry), nil
}
