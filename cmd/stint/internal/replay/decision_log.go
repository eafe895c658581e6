package replay

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A line of a decision log of stint serve is an event with the decision that was made, and
// has a member sample_rate: the share of such decisions that is in the log. What a replay can
// do with it depends on the sample.
//
//   - Of a sample of callers, all decisions of the callers in the sample are in the log
//     (sampled is true). Each of them can be decided anew, because what a limit decides
//     depends only on the earlier requests of the same caller. The decisions stand for those
//     of all callers. Denials of other callers are in the log too (sampled is false), and are
//     left out: their allowed requests are missing.
//   - Of a sample of requests (sampled is missing), every caller lacks requests, so other
//     rules cannot be tried. The replay only weighs what was decided: a line stands for
//     1/sample_rate decisions.
//
// A log may lack lines that were dropped: the next line of the same server says how many. They
// may be of any caller and of any time since the line before, so the minutes from that line to
// this one say too little of the callers in the sample. Their events are decided, because later
// decisions depend on them, but what the decisions stand for is counted without them.

// logLine is what a line of a decision log says about its sample.
type logLine struct {
	rate    float64
	whole   bool // the caller is in a sample of callers
	part    bool // it is in a sample of requests
	allowed bool
	notable bool // denied or degraded: always logged
	rule    string
	dropped int64
	envoy   bool // it is of Envoy's rate limit service
}

// takesRule is the rule of decisions on limits that callers bring. Rules do not apply to these,
// nor to requests to Envoy's rate limit service, which have no attributes.
const takesRule = "(take)"

// isLog reports whether the fields are those of a line of a decision log.
func (f fields) isLog() bool { return f.find("sample_rate") != nil }

func (f fields) logLine() (l logLine, err error) {
	rate := f.find("sample_rate")
	l.rate, err = strconv.ParseFloat(rate.value, 64)
	if err != nil || rate.kind != kindNumber || !(l.rate >= leastRate && l.rate <= 1) {
		return l, fmt.Errorf("sample_rate: %.40s is not a share (it is above 0 and at most 1)", rate.json())
	}
	sampled := f.find("sampled")
	l.part, l.whole = sampled == nil, sampled != nil && sampled.value == "true"
	allowed, _ := f.attribute("allowed")
	l.allowed = allowed == "true"
	degraded, _ := f.attribute("degraded")
	l.notable = !l.allowed || degraded == "true"
	l.rule, _ = f.attribute("rule")
	surface, _ := f.attribute("surface")
	l.envoy = surface == "envoy"
	if before := f.find("dropped_before"); before != nil {
		l.dropped, err = before.whole()
		if err == nil && (l.dropped < 0 || l.dropped > mostDropped) {
			err = fmt.Errorf("dropped_before: %d is out of range (a number of lines is 0 to %d)", l.dropped, int64(mostDropped))
		}
	}
	return l, err
}

// The bounds of numbers in a line keep what they add up to finite.
const (
	leastRate   = 1e-100
	mostDropped = 1_000_000_000_000
)

// caller returns whose request a line of a decision log is. Its hash of the API key comes
// first, as in the sample.
func (f fields) caller() string {
	for _, name := range []string{"api_key", "ip", "id"} {
		if value, ok := f.attribute(name); ok && value != "" {
			return name + value
		}
	}
	return ""
}

// logTally counts the lines of decision logs. The goroutines of all inputs share it.
type logTally struct {
	seed maphash.Seed

	mu       sync.Mutex
	lines    int64              // guarded by mu
	leftOut  int64              // guarded by mu
	dropped  int64              // guarded by mu
	share    float64            // guarded by mu; the least share of the callers; 0: there are none
	greatest float64            // guarded by mu; the greatest share of the callers
	rules    map[string]*Weight // guarded by mu; of samples of requests
	last     map[*source]int64  // guarded by mu; the minute of the last line of each input
	gaps     []gap              // guarded by mu; apart from each other, in order of time

	callers  map[uint64]*callerCount           // of the sample
	open     map[int64]map[uint64]*callerCount // callers by minute, in minutes that may still get a gap
	excluded int64                             // events in minutes with gaps
}

func newLogTally() *logTally {
	return &logTally{seed: maphash.MakeSeed(), rules: map[string]*Weight{}, last: map[*source]int64{},
		callers: map[uint64]*callerCount{}, open: map[int64]map[uint64]*callerCount{}}
}

// minute is the length of the intervals that are excluded, in microseconds.
const minute = 60_000_000

// add counts a line of an input, and reports whether the replay decides it. at is its time.
func (t *logTally) add(l *logLine, of *source, at int64, rules bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines++
	t.findGapLocked(l, of, at)
	switch {
	case l.part:
		t.weighLocked(l)
		return false
	case !l.whole, rules && (l.envoy || l.rule == takesRule):
		t.leftOut++
		return false
	}
	if t.share == 0 || l.rate < t.share {
		t.share = l.rate
	}
	if !l.notable {
		t.greatest = max(t.greatest, l.rate)
	}
	return true
}

// pass looks for a gap before a line that the replay leaves out, because the gap may lie in the
// part that it decides.
func (t *logTally) pass(l *logLine, of *source, at int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.findGapLocked(l, of, at)
}

// gap is a span of minutes that lack lines, from the first to the last.
type gap struct{ first, last int64 }

// findGapLocked adds the gap before a line, as far as it lies in the part of the traffic that is
// decided.
func (t *logTally) findGapLocked(l *logLine, of *source, at int64) {
	now := at / minute
	last, ok := t.last[of]
	t.last[of] = now
	if l.dropped == 0 {
		return
	}
	if !ok {
		last = now
	}
	g := gap{max(min(last, now), of.span.since/minute), min(max(last, now), (of.span.until-1)/minute)}
	if g.first <= g.last {
		t.dropped += l.dropped
		t.addGapLocked(g)
	}
}

// addGapLocked adds a gap, and joins it with those that it meets.
func (t *logTally) addGapLocked(g gap) {
	from, _ := slices.BinarySearchFunc(t.gaps, g.first, func(a gap, first int64) int { return cmp.Compare(a.last, first-1) })
	to := from
	for ; to < len(t.gaps) && t.gaps[to].first <= g.last+1; to++ {
		g = gap{min(g.first, t.gaps[to].first), max(g.last, t.gaps[to].last)}
	}
	t.gaps = slices.Replace(t.gaps, from, to, g)
}

// inGap reports whether a minute lacks lines.
func (t *logTally) inGap(m int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, _ := slices.BinarySearchFunc(t.gaps, m, func(a gap, m int64) int { return cmp.Compare(a.last, m) })
	return at < len(t.gaps) && t.gaps[at].first <= m
}

// weighsOnly reports whether there are decision logs, and all are samples of requests.
func (t *logTally) weighsOnly() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lines > 0 && t.share == 0
}

func (t *logTally) weighLocked(l *logLine) {
	w := t.rules[l.rule]
	if w == nil {
		w = &Weight{Rule: strings.Clone(l.rule)}
		t.rules[w.Rule] = w
	}
	if !l.allowed {
		w.Denied += 1 / l.rate
		return
	}
	w.Allowed += 1 / l.rate
	w.variance += (1 - l.rate) / (l.rate * l.rate)
}

// callerCount counts the events of one caller of a sample.
type callerCount struct{ events, denied float64 }

// mostOpen bounds the minutes that are open in a log whose times descend.
const mostOpen = 64

// count counts a decided event of a caller of the sample. The line that shows a gap may be the
// first of the next minute, so a minute is closed once there are events of the next but one.
func (t *logTally) count(at int64, caller uint64, allowed bool) {
	now := at / minute
	in := t.open[now]
	if in == nil {
		in = map[uint64]*callerCount{}
		t.open[now] = in
		for m := range t.open {
			if m < now-1 || m != now && len(t.open) > mostOpen {
				t.close(m)
			}
		}
	}
	c := in[caller]
	if c == nil {
		c = &callerCount{}
		in[caller] = c
	}
	c.events++
	if !allowed {
		c.denied++
	}
}

// close adds up the events of a minute, or excludes them if it has a gap.
func (t *logTally) close(m int64) {
	gap := t.inGap(m)
	for caller, c := range t.open[m] {
		if gap {
			t.excluded += int64(c.events)
			continue
		}
		all := t.callers[caller]
		if all == nil {
			all = &callerCount{}
			t.callers[caller] = all
		}
		all.events += c.events
		all.denied += c.denied
	}
	delete(t.open, m)
}

// LogReading says what was read of decision logs.
type LogReading struct {
	Lines   int64 `json:"lines"`
	LeftOut int64 `json:"left_out"` // decisions on callers outside of the sample, and on limits that callers bring or that Envoy's files have
	Dropped int64 `json:"dropped"`  // lines that the log lacks
	Gaps    int64 `json:"minutes_with_gaps"`

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
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.0f\n", cmp.Or(one.Rule, "(no rule)"), one.Allowed, one.AllowedError, one.Denied)
	}
}

// write writes what the reader of figures on callers must know of the log. callers is the number
// of callers that were read. The figures include the minutes that lack lines.
func (r *LogReading) write(w io.Writer, callers int64) {
	if r == nil {
		return
	}
	fmt.Fprintf(w, "decision log\t%d lines\n", r.Lines)
	if r.ShareOfCallers > 0 {
		fmt.Fprintf(w, "sample\tall decisions of %s of the callers\n", percent(r.ShareOfCallers))
	}
	r.writeDoubts(w, callers)
	if r.Gaps > 0 {
		fmt.Fprintf(w, "not excluded\t%d minutes that lack lines: their callers may have made more requests\n", r.Gaps)
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
