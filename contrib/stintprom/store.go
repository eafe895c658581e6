package stintprom

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/nameset"
	"github.com/stintdev/stint/storekit"
)

// WatchStore exports the metrics of a store and of the stores below it, such as a lease
// over a guard over Redis, at each scrape. A layer has metrics if it has a method
// Metrics() []stint.Metric. They have the label store, with the given name. A store
// replaces an earlier store of the same name. It returns an error, and exports nothing,
// if the store is nil, and from the 1,001st name on.
func (m *Metrics) WatchStore(name string, store stint.Store) error {
	if storekit.Missing(store) {
		return errors.New("stintprom: the store is nil")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return watch(&m.stores, name, store)
}

// watch adds a watched store or client.
func watch[V any](watched *map[string]V, name string, v V) error {
	name = valid(name)
	if _, known := (*watched)[name]; !known && len(*watched) >= nameset.Max {
		return fmt.Errorf("stintprom: %d names are watched already (watch each store and each client once, under a fixed name)", nameset.Max)
	}
	if *watched == nil {
		*watched = map[string]V{}
	}
	(*watched)[name] = v
	return nil
}

// storeFamily is a metric of all watched stores that have it.
type storeFamily struct {
	desc    *prometheus.Desc
	kind    prometheus.ValueType
	labeled bool
	samples []storeSample
}

type storeSample struct {
	store string
	stint.Sample
}

// storeFamilies reads the watched stores. The first store that has a metric describes it:
// two stores may share a metric, and Prometheus accepts one text for both. The lock is
// held.
func (m *Metrics) storeFamilies() map[string]*storeFamily {
	families := map[string]*storeFamily{}
	for _, name := range slices.Sorted(maps.Keys(m.stores)) {
		for layer := range storekit.Layers(m.stores[name]) {
			with, ok := layer.(interface{ Metrics() []stint.Metric })
			if !ok {
				continue
			}
			for _, metric := range with.Metrics() {
				f := families[metric.Name]
				if f == nil {
					f = newStoreFamily(&metric)
					families[metric.Name] = f
				}
				for _, s := range metric.Samples {
					f.samples = append(f.samples, storeSample{name, s})
				}
			}
		}
	}
	return families
}

func newStoreFamily(m *stint.Metric) *storeFamily {
	f := &storeFamily{kind: prometheus.GaugeValue, labeled: m.Label != ""}
	name, labels := "stint_"+m.Name, []string{"store"}
	if m.Counter {
		name, f.kind = name+"_total", prometheus.CounterValue
	}
	if f.labeled {
		labels = append(labels, m.Label)
	}
	f.desc = prometheus.NewDesc(name, m.Help, labels, nil)
	return f
}

func (f *storeFamily) collect(to chan<- prometheus.Metric) {
	for _, s := range f.samples {
		labels := []string{s.store}
		if f.labeled {
			labels = append(labels, valid(s.Label))
		}
		metric, err := prometheus.NewConstMetric(f.desc, f.kind, s.Value, labels...)
		if err != nil { // a store of the program describes its metric wrongly
			metric = prometheus.NewInvalidMetric(f.desc, err)
		}
		to <- metric
	}
}
