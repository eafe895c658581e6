package storekit

import (
	"slices"

	"github.com/stintdev/stint"
)

// Metric is one of the numbers that a store counts or measures anyway, for an exporter
// such as contrib/stintprom.
type Metric struct {
	Name string // in snake case with its unit, such as "clock_skew_seconds"
	Help string // one sentence

	// Counter is true for a number that only grows while the store lives, and false for
	// a current value.
	Counter bool

	// Label is the name of the label of each sample, such as "shard". It is empty for a
	// metric of one sample without a label.
	Label   string
	Samples []Sample
}

// Sample is a value of a [Metric].
type Sample struct {
	Label string // value of the label; never chosen by callers
	Value float64
}

// Gauge returns a metric of one current value.
func Gauge(name, help string, value float64) Metric {
	return Metric{Name: name, Help: help, Samples: []Sample{{Value: value}}}
}

// Counter returns a metric of one count.
func Counter(name, help string, value uint64) Metric {
	return Metric{Name: name, Help: help, Counter: true, Samples: []Sample{{Value: float64(value)}}}
}

// Metered is a store that has metrics. It returns the same metrics at every call, in the
// same order; only their samples change.
type Metered interface {
	Metrics() []Metric
}

// Metrics returns the metrics of a store and of the stores below it, for an exporter: of
// those that are [Metered], and of a [*stint.Memory]. Where two layers have a metric of
// one name, it is that of the upper layer, because an exporter accepts a name once.
func Metrics(store stint.Store) (all []Metric) {
	for layer := range Layers(store) {
		for _, m := range metricsOf(layer) {
			if !slices.ContainsFunc(all, func(known Metric) bool { return known.Name == m.Name }) {
				all = append(all, m)
			}
		}
	}
	return all
}

func metricsOf(layer stint.Store) []Metric {
	switch s := layer.(type) {
	case Metered:
		return s.Metrics()
	case interface{ Stats() stint.MemoryStats }: // a Memory, or a store that embeds one
		return memoryMetrics(s.Stats())
	}
	return nil
}

func memoryMetrics(s stint.MemoryStats) []Metric {
	c := &s.Callers
	return []Metric{
		Gauge("keys", "Keys of limits of programs and rules that the store holds.", float64(s.Keys)),
		Counter("evictions", "Keys evicted before they expired, because the store was full.", s.Evictions),
		Counter("unstored", "New keys decided as fresh and not stored, because the store was full of exhausted keys.", s.Unstored),
		Gauge("caller_keys", "Keys of limits that callers bring.", float64(c.Keys)),
		Gauge("caller_limits", "Limits that callers bring and that at least one key uses.", float64(c.Limits)),
		Counter("caller_evictions", "Keys of limits that callers bring, evicted before they expired because their room was full.", c.Evictions),
		Counter("caller_refused", "Claims on limits that callers bring, refused because their room or budget was used up.", c.Refused),
		Gauge("once_bytes", "Bytes that the store keeps for groups that may be repeated.", float64(s.Once.Bytes)),
		Counter("once_refused", "Groups that may be repeated, refused because there was no room to remember them.", s.Once.Refused),
	}
}
