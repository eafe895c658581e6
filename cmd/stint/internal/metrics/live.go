package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/stintdev/stint/cmd/stint/internal/decide"
	"github.com/stintdev/stint/cmd/stint/internal/live"
)

// ReadLive adds to an empty reading what was counted since the start: the requests of all
// surfaces, the rules of the given sets and the limits that callers bring, and durations. A
// counter is read where it is, so counting costs nothing more.
func (m *Metrics) ReadLive(to *live.Reading, stores []StoreReader, sets ...*SetCounters) {
	var read counterReader
	for s := range Surfaces {
		ended := &m.requests.ended[s]
		to.Requests.Allowed += read.value(ended[decide.Allowed])
		to.Requests.Denied += read.value(ended[decide.Denied])
		to.Requests.DegradedAllowed += read.value(ended[decide.DegradedAllowed])
		to.Requests.DegradedDenied += read.value(ended[decide.DegradedDenied])
		to.Requests.Errors += read.value(ended[decide.Failed])
		if c := m.requests.unmatched[s]; c != nil {
			to.Requests.Unmatched += read.value(c)
		}
	}
	for _, set := range sets {
		for r, c := range set.rules {
			to.Rules[r.ID] = live.Counts{Allowed: read.value(c.allow), Denied: read.value(c.deny), Shadow: read.value(c.shadowDeny), Degraded: read.value(c.failed)}
		}
	}
	to.Rules[takes] = live.Counts{Allowed: read.value(m.takeAllowed), Denied: read.value(m.takeDenied)}
	to.Checks.Reset(durations())
	for _, h := range m.checks {
		if metric, ok := h.(prometheus.Metric); ok {
			read.histogram(metric, &to.Checks)
		}
	}
	to.Store.Reset(durations())
	for _, store := range stores {
		series := make(chan prometheus.Metric)
		go func() { store.Calls.duration.Collect(series); close(series) }()
		for metric := range series {
			read.histogram(metric, &to.Store)
		}
	}
}

// counterReader reads metrics. It reuses its memory.
type counterReader struct{ of dto.Metric }

func (r *counterReader) value(c prometheus.Counter) uint64 {
	r.of.Reset()
	if c.Write(&r.of) != nil {
		return 0
	}
	return uint64(r.of.GetCounter().GetValue())
}

// histogram adds the counts of a histogram with the same bounds.
func (r *counterReader) histogram(h prometheus.Metric, to *live.Histogram) {
	r.of.Reset()
	if h.Write(&r.of) != nil {
		return
	}
	of := r.of.GetHistogram()
	for _, b := range of.GetBucket() {
		if i, found := slices.BinarySearch(to.Bounds, b.GetUpperBound()); found {
			to.Counts[i] += b.GetCumulativeCount()
		}
	}
	to.Counts[len(to.Bounds)] += of.GetSampleCount()
}
