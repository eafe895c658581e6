package stintotel

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/nameset"
	"github.com/stintdev/stint/resilience/client"
	"github.com/stintdev/stint/resilience/retrybudget"
	"github.com/stintdev/stint/storekit"
)

// WatchStore exports the metrics of a store and of the stores below it, such as a lease
// over a guard over Redis, at each collection. They have the attribute stint.store, with
// the given name. A store replaces an earlier store of the same name. It returns an
// error, and exports nothing, if the store is nil, if 1,000 stores and clients are watched
// already, or if the provider refuses an instrument.
func (t *Telemetry) WatchStore(name string, store stint.Store) error {
	if storekit.Missing(store) {
		return errors.New("stintotel: the store is nil (pass the one to watch)")
	}
	return t.watch(attribute.String("stint.store", name), func() []storekit.Metric { return storekit.Metrics(store) })
}

// WatchClient exports the state of a chain's bulkhead and breaker, and of its retry
// budget, at each collection. Nil parts are skipped. A chain replaces an earlier chain of
// the same name. It returns the same errors as WatchStore.
func (t *Telemetry) WatchClient(c client.Chain, retries *retrybudget.Budget) error {
	return t.watch(attribute.String("stint.dependency", c.Name), func() []storekit.Metric {
		all := c.Metrics()
		if retries != nil {
			all = append(all, storekit.Gauge("client_budget_left", "Retries that the budget would grant now.", float64(retries.Usage().Left)))
		}
		return all
	})
}

// watch registers a callback that reads a source of metrics. of is the attribute with its
// name.
func (t *Telemetry) watch(of attribute.KeyValue, read func() []storekit.Metric) error {
	if !t.made() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watched[of] == nil && len(t.watched) >= nameset.Max {
		return fmt.Errorf("stintotel: %d stores and clients are watched already (watch each once, under a fixed name)", nameset.Max)
	}
	instruments, all, err := t.instruments(read())
	if err != nil {
		return fmt.Errorf("stintotel: %w", err)
	}
	registration, err := t.meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		for _, m := range read() {
			observe(to, instruments[m.Name], of, &m)
		}
		return nil
	}, all...)
	if err != nil {
		return fmt.Errorf("stintotel: %w", err)
	}
	if before := t.watched[of]; before != nil {
		err = before.Unregister()
	}
	if t.watched == nil {
		t.watched = map[attribute.KeyValue]metric.Registration{}
	}
	t.watched[of] = registration
	return err
}

// instruments makes the instruments of metrics. A provider returns the same instrument for
// the same name.
func (t *Telemetry) instruments(metrics []storekit.Metric) (byName map[string]metric.Float64Observable, all []metric.Observable, err error) {
	byName = map[string]metric.Float64Observable{}
	for _, m := range metrics {
		var one metric.Float64Observable
		if m.Counter {
			one, err = t.meter.Float64ObservableCounter("stint."+m.Name, metric.WithDescription(m.Help))
		} else {
			one, err = t.meter.Float64ObservableGauge("stint."+m.Name, metric.WithDescription(m.Help))
		}
		if err != nil {
			return nil, nil, err
		}
		byName[m.Name] = one
		all = append(all, one)
	}
	return byName, all, nil
}

// observe reports the samples of a metric. It skips a metric that the source did not have
// when the watch began.
func observe(to metric.Observer, instrument metric.Float64Observable, of attribute.KeyValue, m *storekit.Metric) {
	if instrument == nil {
		return
	}
	for _, s := range m.Samples {
		attributes := []attribute.KeyValue{of}
		if m.Label != "" {
			attributes = append(attributes, attribute.String("stint."+m.Label, s.Label))
		}
		to.ObserveFloat64(instrument, s.Value, metric.WithAttributes(attributes...))
	}
}
