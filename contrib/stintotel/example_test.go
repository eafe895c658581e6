package stintotel_test

import (
	"context"
	"fmt"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/contrib/stintotel"
)

// One Telemetry serves a whole program. Programs that set the global providers need no
// options.
func ExampleNew() {
	reader := sdk.NewManualReader() // in a program: a periodic reader with an exporter
	limiter, err := newLimiter(stintotel.Options{MeterProvider: sdk.NewMeterProvider(sdk.WithReader(reader))})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		_, _ = limiter.Allow(context.Background(), "user:1")
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		fmt.Println(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok {
			fmt.Println(m.Name, len(sum.DataPoints))
		}
	}
	// Unordered output:
	// stint.limiter.decisions 2
	// stint.limiter.denials 1
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
