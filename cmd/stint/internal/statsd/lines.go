package statsd

import (
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// lines turns the metrics of a registry into lines.
type lines struct {
	tags, envoy bool

	series map[string]*series // by key
	round  uint64             // of read, to find the series that have ended
}

// series is one value under a name and tags.
type series struct {
	gauge   bool
	seen    float64 // when it was last read
	pending float64 // of a counter: what has been added and not sent
	due     bool
	round   uint64
}

// maxEnded bounds the series that have ended and wait for a collector.
const maxEnded = 10_000

func newLines(tags, envoy bool) *lines {
	return &lines{tags: tags, envoy: envoy, series: map[string]*series{}}
}

// read adds what has happened since the last time. If the registry could be read only in part, the
// series that are missing have not ended: forgotten, they would be sent with their totals next time.
func (l *lines) read(families []*dto.MetricFamily, whole bool) {
	l.round++
	for _, f := range families {
		for _, m := range f.GetMetric() {
			l.readMetric(f.GetName(), m)
		}
	}
	if !whole {
		return
	}
	ended := 0
	for key, s := range l.series {
		if s.round == l.round {
			continue
		}
		if ended++; s.gauge || s.pending == 0 || ended > maxEnded {
			delete(l.series, key)
		}
	}
}

// readMetric reads one metric. A histogram becomes counters of its events, of their sum, and
// of its buckets.
func (l *lines) readMetric(name string, m *dto.Metric) {
	labels := labelsOf(m.GetLabel())
	switch {
	case m.GetCounter() != nil:
		l.add(name, labels, m.GetCounter().GetValue())
		if envoy, ok := envoyName(name, labels); ok && l.envoy {
			l.count(key(envoy, labels), m.GetCounter().GetValue())
		}
	case m.GetGauge() != nil:
		l.set(name, labels, m.GetGauge().GetValue())
	case m.GetUntyped() != nil:
		l.set(name, labels, m.GetUntyped().GetValue())
	case m.GetHistogram() != nil:
		h := m.GetHistogram()
		l.add(name+"_count", labels, float64(h.GetSampleCount()))
		l.add(name+"_sum", labels, h.GetSampleSum())
		for _, b := range h.GetBucket() {
			bound := strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64)
			l.add(name+"_bucket", append(slices.Clip(labels), label{"le", bound}), float64(b.GetCumulativeCount()))
		}
	case m.GetSummary() != nil:
		s := m.GetSummary()
		l.add(name+"_count", labels, float64(s.GetSampleCount()))
		l.add(name+"_sum", labels, s.GetSampleSum())
		for _, q := range s.GetQuantile() {
			share := strconv.FormatFloat(q.GetQuantile(), 'g', -1, 64)
			l.set(name, append(slices.Clip(labels), label{"quantile", share}), q.GetValue())
		}
	}
}

type label struct{ name, value string }

func labelsOf(pairs []*dto.LabelPair) []label {
	labels := make([]label, len(pairs))
	for i, p := range pairs {
		labels[i] = label{p.GetName(), p.GetValue()}
	}
	return labels
}

// add reads a counter.
func (l *lines) add(name string, labels []label, value float64) {
	l.count(key(l.id(name, labels), labels), value)
}

// count reads a counter. One that is less than before has begun again.
func (l *lines) count(key string, value float64) {
	s := l.find(key)
	if value >= s.seen {
		s.pending += value - s.seen
	} else {
		s.pending += value
	}
	s.seen, s.due = value, s.pending != 0
}

// set reads a gauge. StatsD knows no infinity and no NaN.
func (l *lines) set(name string, labels []label, value float64) {
	if math.IsInf(value, 0) || math.IsNaN(value) {
		return
	}
	s := l.find(key(l.id(name, labels), labels))
	s.gauge, s.seen, s.due = true, value, true
}

func (l *lines) find(key string) *series {
	s := l.series[key]
	if s == nil {
		s = &series{}
		l.series[key] = s
	}
	s.round = l.round
	return s
}

// key returns the key of a series: the id of its line, and the values of its labels. The
// collector may see two series under one name, because clean and dotless replace characters:
// the rules a.b and a_b. Each of them still needs its own difference.
func key(id string, labels []label) string {
	var b strings.Builder
	b.WriteString(id)
	for _, one := range labels {
		b.WriteString("\x00" + one.value)
	}
	return b.String()
}

// id returns the name of a line. Tags follow it after a tab. Neither has control characters.
func (l *lines) id(name string, labels []label) string {
	var b strings.Builder
	b.WriteString(clean(name))
	for i, one := range labels {
		switch {
		case !l.tags:
			b.WriteString("." + dotless(one.name) + "." + dotless(one.value))
		case i == 0:
			b.WriteString("\t" + one.name + ":" + cleanValue(one.value))
		default:
			b.WriteString("," + one.name + ":" + cleanValue(one.value))
		}
	}
	return b.String()
}

// clean replaces what separates the parts of a line.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r == 0x7f || strings.ContainsRune(",|:#@;=", r) {
			return '_'
		}
		return r
	}, text)
}

// cleanValue is clean for the value of a tag, which may hold colons: the first one of a tag
// ends its name.
func cleanValue(text string) string {
	parts := strings.Split(text, ":")
	for i := range parts {
		parts[i] = clean(parts[i])
	}
	return strings.Join(parts, ":")
}

// dotless is clean for a part of a name. An empty part would join two dots.
func dotless(text string) string {
	if text == "" {
		return "none"
	}
	return strings.ReplaceAll(clean(text), ".", "_")
}

// packets returns datagrams of at most the given number of bytes with all lines that are
// due, each with the function to call once it has been sent. A line that is longer by itself
// is dropped.
func (l *lines) packets(most int) iter.Seq2[[]byte, func()] {
	return func(yield func([]byte, func()) bool) {
		var packet []byte
		var within []*series
		flush := func() bool {
			if len(packet) == 0 {
				return true
			}
			all := within
			ok := yield(packet, func() {
				for _, s := range all {
					s.pending, s.due = 0, false
				}
			})
			packet, within = packet[:0], nil
			return ok
		}
		for _, key := range slices.Sorted(maps.Keys(l.series)) {
			s := l.series[key]
			if !s.due {
				continue
			}
			line := l.line(key, s)
			if len(line) > most {
				s.pending, s.due = 0, false
				continue
			}
			if len(packet)+len(line)+1 > most && !flush() {
				return
			}
			if len(packet) > 0 {
				packet = append(packet, '\n')
			}
			packet = append(packet, line...)
			within = append(within, s)
		}
		flush()
	}
}

// line returns the line of a series. Without tags the collector may be one to which a
// gauge with a sign is a difference, so the gauge is set to zero first.
func (l *lines) line(key string, s *series) string {
	id, _, _ := strings.Cut(key, "\x00")
	name, tags, tagged := strings.Cut(id, "\t")
	if tagged {
		tags = "|#" + tags
	}
	if !s.gauge {
		return name + ":" + number(s.pending) + "|c" + tags
	}
	line := name + ":" + number(s.seen) + "|g" + tags
	if s.seen < 0 && !l.tags {
		line = name + ":0|g\n" + line
	}
	return line
}

// number writes no exponent, which not every collector reads.
func number(value float64) string { return strconv.FormatFloat(value, 'f', -1, 64) }
