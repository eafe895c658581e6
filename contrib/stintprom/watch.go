package stintprom

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/nameset"
	"github.com/stintdev/stint/resilience/client"
	"github.com/stintdev/stint/resilience/retrybudget"
	"github.com/stintdev/stint/storekit"
)

// source names a store or a client whose state is read at each scrape, and the label that
// has the name.
type source struct{ label, name string }

// WatchStore exports the metrics of a store and of the stores below it, such as a lease
// over a guard over Redis, at each scrape. They have the label store, with the given
// name. A store replaces an earlier store of the same name. It returns an error, and
// exports nothing, if the store is nil, or if 1,000 stores and clients are watched
// already.
func (m *Metrics) WatchStore(name string, store stint.Store) error {
	if storekit.Missing(store) {
		return errors.New("stintprom: the store is nil (pass the one to watch)")
	}
	return m.watch(source{"store", name}, func() []storekit.Metric { return storekit.Metrics(store) })
}

// WatchClient exports the state of a chain's bulkhead and breaker, and of its retry
// budget, at each scrape. Nil parts are skipped. A chain replaces an earlier chain of the
// same name. It returns an error, and exports nothing, if 1,000 stores and clients are
// watched already.
func (m *Metrics) WatchClient(c client.Chain, retries *retrybudget.Budget) error {
	return m.watch(source{"dependency", c.Name}, func() []storekit.Metric {
		all := c.Metrics()
		if retries != nil {
			all = append(all, storekit.Gauge("client_budget_left", "Retries that the budget would grant now.", float64(retries.Usage().Left)))
		}
		return all
	})
}

func (m *Metrics) watch(s source, read func() []storekit.Metric) error {
	s.name = valid(s.name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.watched == nil {
		m.watched = map[source]func() []storekit.Metric{}
	}
	if m.watched[s] == nil && len(m.watched) >= nameset.Max {
		return fmt.Errorf("stintprom: %d stores and clients are watched already (watch each once, under a fixed name)", nameset.Max)
	}
	m.watched[s] = read
	return nil
}

// family is a metric of all sources that have it.
type family struct {
	desc    *prometheus.Desc
	kind    prometheus.ValueType
	labeled bool
	samples []sample
}

type sample struct {
	source string
	storekit.Sample
}

// families reads what is watched. The first source that has a metric describes it: two
// stores may share a metric, and Prometheus accepts one text for both.
func (m *Metrics) families() map[string]*family {
	m.mu.Lock()
	watched := maps.Clone(m.watched)
	m.mu.Unlock()
	all := map[string]*family{}
	for _, s := range slices.SortedFunc(maps.Keys(watched), func(a, b source) int { return cmp.Compare(a.name, b.name) }) {
		for _, metric := range watched[s]() {
			f := all[metric.Name]
			if f == nil {
				f = newFamily(s.label, &metric)
				all[metric.Name] = f
			}
			for _, one := range metric.Samples {
				f.samples = append(f.samples, sample{s.name, one})
			}
		}
	}
	return all
}

func newFamily(label string, m *storekit.Metric) *family {
	f := &family{kind: prometheus.GaugeValue, labeled: m.Label != ""}
	name, labels := "stint_"+m.Name, []string{label}
	if m.Counter {
		name, f.kind = name+"_total", prometheus.CounterValue
	}
	if f.labeled {
		labels = append(labels, m.Label)
	}
	f.desc = prometheus.NewDesc(name, m.Help, labels, nil)
	return f
}

func (f *family) collect(to chan<- prometheus.Metric) {
	for _, s := range f.samples {
		labels := []string{s.source}
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
