package replay

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
)

// LogReading says what was read of decision logs.
type LogReading struct {
	Lines   int64 `json:"lines"`
	LeftOut int64 `json:"left_out"` // decisions on callers outside of the sample, and on limits that callers bring or that Envoy's files have
	Dropped int64 `json:"dropped"`  // lines that the log lacks
	Gaps    int64 `json:"minutes_with_gaps"`
	// EventsInGaps is the number of events in these minutes that [ReadKeys] left out.
	EventsInGaps int64 `json:"events_in_gaps,omitempty"`

	// ShareOfCallers is the share of all callers that are in a sample of callers. If the
	// share changed within the log, it is the least, and GreatestShare the greatest.
	ShareOfCallers float64 `json:"share_of_callers,omitempty"`
	GreatestShare  float64 `json:"greatest_share_of_callers,omitempty"`
}

// reading returns nil if no input was a decision log.
func (t *logTally) reading() *LogReading {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lines == 0 {
		return nil
	}
	r := &LogReading{Lines: t.lines, LeftOut: t.leftOut, Dropped: t.dropped, ShareOfCallers: t.share}
	for _, g := range t.gaps {
		r.Gaps += g.last - g.first + 1
	}
	if t.greatest > t.share {
		r.GreatestShare = t.greatest
	}
	return r
}

// LogSummary says what the lines of decision logs stand for.
type LogSummary struct {
	LogReading

	// Excluded is the number of decided events in minutes that lack lines. What the
	// decisions stand for is without them.
	Excluded int64 `json:"excluded"`

	// A sample of callers: what the decisions of the replay stand for. The errors are twice the standard error: the true number is within them in
	// 19 of 20 samples.
	Callers          int64   `json:"callers"`
	Events           float64 `json:"events,omitempty"`
	Denied           float64 `json:"denied"`
	DeniedError      float64 `json:"denied_error"`
	ShareDenied      float64 `json:"share_denied"`
	ShareDeniedError float64 `json:"share_denied_error"`

	// A sample of requests: what was decided, by the rule that decided.
	Weighed []Weight `json:"weighed,omitempty"`
}

// Weight is a number of decisions that lines of a sample of requests stand for.
type Weight struct {
	Rule         string  `json:"rule"` // empty: no rule decided
	Allowed      float64 `json:"allowed"`
	AllowedError float64 `json:"allowed_error"` // twice the standard error
	Denied       float64 `json:"denied"`        // exact but for dropped lines

	variance float64
}

// logSummary returns nil if no input was a decision log.
func (r *replay) logSummary() *LogSummary {
	t := r.log
	for m := range t.open {
		t.close(m)
	}
	read := t.reading()
	if read == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &LogSummary{LogReading: *read, Excluded: t.excluded, Callers: int64(len(t.callers))}
	for _, w := range t.rules {
		w.AllowedError = 2 * math.Sqrt(w.variance)
		s.Weighed = append(s.Weighed, *w)
	}
	slices.SortFunc(s.Weighed, func(a, b Weight) int { return cmp.Compare(a.Rule, b.Rule) })
	if t.share > 0 {
		s.estimate(t.callers)
	}
	return s
}

// estimate sets what the decisions on the callers of the sample stand for. Callers are in the
// sample independently of each other, each with all of its requests, so the errors come from
// the differences between callers, not from the number of requests.
func (s *LogSummary) estimate(callers map[uint64]*callerCount) {
	f, m := s.ShareOfCallers, float64(len(callers))
	var events, denied, squares, residuals float64
	for _, c := range callers {
		events += c.events
		denied += c.denied
		squares += c.denied * c.denied
	}
	s.Events, s.Denied = events/f, denied/f
	s.DeniedError = 2 * math.Sqrt((1-f)*squares) / f
	if events == 0 {
		return
	}
	s.ShareDenied = denied / events
	if m < 2 {
		return
	}
	for _, c := range callers {
		d := c.denied - denied/events*c.events
		residuals += d * d
	}
	s.ShareDeniedError = 2 * math.Sqrt((1-f)*m/(m-1)*residuals) / events
}

// fewCallers is the number of callers below which errors say little.
const fewCallers = 30

// write writes what a reader must know of the sample.
func (s *LogSummary) write(w io.Writer) {
	if s == nil {
		return
	}
	fmt.Fprintf(w, "\ndecision log\t%d lines\n", s.Lines)
	if f := s.ShareOfCallers; f > 0 {
		fmt.Fprintf(w, "sample\tall decisions of %s of the callers: %d callers\n", percent(f), s.Callers)
		fmt.Fprintf(w, "stands for\t%.0f events, %.0f ± %.0f denied (%s ± %s)\n", s.Events, s.Denied, s.DeniedError, percent(s.ShareDenied), percent(s.ShareDeniedError))
	}
	s.writeDoubts(w, s.Callers)
	if s.ShareOfCallers > 0 && s.Gaps > 0 {
		fmt.Fprintf(w, "excluded\t%d events in %d minutes that lack lines; limits over a longer time lack them in later minutes, too\n", s.Excluded, s.Gaps)
	}
	if len(s.Weighed) == 0 {
		return
	}
	fmt.Fprint(w, "sample\tof requests: it shows what was decided, and other rules cannot be tried on it (log with --decision-log-sample 1%:caller)\n")
	fmt.Fprint(w, "\ndecided by\tallowed\t±\tdenied\n")
	for _, one := range s.Weighed {
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.0f\n", Plain(cmp.Or(one.Rule, "(no rule)"), 28), one.Allowed, one.AllowedError, one.Denied)
	}
}

// write writes what the reader of figures on callers must know of the log. callers is the number
// of callers that were read, of events. The figures leave out the minutes that lack lines.
func (r *LogReading) write(w io.Writer, callers, events int64) {
	if r == nil {
		return
	}
	fmt.Fprintf(w, "decision log\t%d lines\n", r.Lines)
	if r.ShareOfCallers > 0 {
		fmt.Fprintf(w, "sample\tall decisions of %s of the callers\n", percent(r.ShareOfCallers))
	}
	r.writeDoubts(w, callers)
	if r.Gaps > 0 {
		share := float64(r.EventsInGaps) / float64(max(1, events+r.EventsInGaps))
		fmt.Fprintf(w, "excluded\t%d minutes that lack lines, with %d events (%s); limits over a longer time lack them in later minutes, too\n", r.Gaps, r.EventsInGaps, percent(share))
	}
}

// writeDoubts writes why what a sample says is not exact.
func (r *LogReading) writeDoubts(w io.Writer, callers int64) {
	if r.LeftOut > 0 {
		fmt.Fprintf(w, "left out\t%d lines of other callers, of Envoy, or of limits that callers bring\n", r.LeftOut)
	}
	if r.ShareOfCallers > 0 && r.ShareOfCallers < 1 && callers < fewCallers {
		fmt.Fprintf(w, "not sure\tfewer than %d callers say little about the others\n", fewCallers)
	}
	if r.GreatestShare > 0 {
		fmt.Fprintf(w, "not exact\tthe sample has %s of the callers in one part of the log and %s in another (use --since and --until)\n", percent(r.ShareOfCallers), percent(r.GreatestShare))
	}
	if r.Dropped > 0 {
		fmt.Fprintf(w, "not exact\tthe log lacks %d lines, which were dropped\n", r.Dropped)
	}
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'g', 3, 64) + " %" }
