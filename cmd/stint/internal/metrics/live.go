package metrics

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/stintdev/stint/cmd/stint/internal/decide"
	"github.com/stintdev/stint/cmd/stint/internal/live"
)

// ReadLive adds to an empty reading what was counted since the start: the requests of all
// surfaces, the rules of the given sets and the limits that callers bring, and durations. A
// counter is read where it is, so counting costs next to nothing more. One goroutine at a time may
// call it.
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
	m.live.read(&read, to, sets)
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

// liveRules remember what each rule had counted at the last reading. To read a counter takes a
// fraction of a microsecond, which is much for the four counters of each of 10,000 rules every
// second. So a decision marks its rule, and only marked rules are read.
type liveRules struct {
	mu    sync.Mutex
	rules map[string]*liveRule // guarded by mu; by id
}

// liveRule is a rule in all versions that are in force: they share its counters.
type liveRule struct {
	id      string
	changed atomic.Bool // it has counted since the last reading

	allow, deny, shadowDeny prometheus.Counter
	failed                  []prometheus.Counter // guarded by liveRules.mu; one for each failure policy of the versions
	counts                  live.Counts          // guarded by liveRules.mu; at the last reading
}

// mark notes that the rule has counted. The check before keeps processors from writing to the same
// memory with each request.
func (r *liveRule) mark() {
	if !r.changed.Load() {
		r.changed.Store(true)
	}
}

// of returns the live rule of an id, which has the counters of a version.
func (l *liveRules) of(id string, c *RuleCounters) *liveRule {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rules[id]
	if r == nil {
		r = &liveRule{id: id, allow: c.allow, deny: c.deny, shadowDeny: c.shadowDeny}
		r.changed.Store(true)
		if l.rules == nil {
			l.rules = map[string]*liveRule{}
		}
		l.rules[id] = r
	}
	if !slices.Contains(r.failed, c.failed) {
		r.failed = append(r.failed, c.failed)
	}
	return r
}

func (l *liveRules) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.rules, id)
}

// read sets the counts of the rules of the sets.
func (l *liveRules) read(read *counterReader, to *live.Reading, sets []*SetCounters) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, set := range sets {
		for _, c := range set.rules {
			r := c.live
			if r.changed.Swap(false) { // before the reading: what is counted during it marks the rule again
				r.counts = live.Counts{Allowed: read.value(r.allow), Denied: read.value(r.deny), Shadow: read.value(r.shadowDeny)}
				for _, failed := range r.failed {
					r.counts.Degraded += read.value(failed)
				}
			}
			to.Rules[r.id] = r.counts
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
