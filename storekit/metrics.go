package storekit

import "github.com/stintdev/stint"

// Metered is a store that has metrics of its own; see [stint.Metric].
type Metered interface {
	Metrics() []stint.Metric
}

// Metrics returns the metrics of a store and of the stores below it, for an exporter.
// Layers without metrics are skipped.
func Metrics(store stint.Store) (all []stint.Metric) {
	for layer := range Layers(store) {
		if m, ok := layer.(Metered); ok {
			all = append(all, m.Metrics()...)
		}
	}
	return all
}
