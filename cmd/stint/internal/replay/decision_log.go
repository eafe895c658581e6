package replay

import (
	"cmp"
	"fmt"
	"hash/maphash"
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
// A log may lack lines that were dropped: the next line of the same server says how many, and the
// minute of the first of them. They may be of any caller, so the minutes from that one to this
// line say too little of the callers in the sample. Without the minute, as from an older server,
// they begin at the line before, or at this line if it is the first of the file. Their events are
// decided, because later decisions depend on them, but what the decisions stand for is counted
// without them.

// logLine is what a line of a decision log says about its sample.
type logLine struct {
	rate    float64
	whole   bool // the caller is in a sample of callers
	part    bool // it is in a sample of requests
	allowed bool
	notable bool // denied or degraded: always logged
	rule    string
	dropped int64
	since   int64 // time of the first dropped one; 0: unknown
	envoy   bool  // it is of Envoy's rate limit service
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
	if since := f.find("dropped_since_us"); since != nil && err == nil {
		l.since, err = since.whole()
		err = cmp.Or(err, checkTime("dropped_since_us", l.since))
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

// within returns the part of a gap that lies in a span of traffic. first is above last if there is
// none. The clock of the server may have gone back within the gap.
func (g gap) within(s *span) gap {
	return gap{max(min(g.first, g.last), s.since/minute), min(max(g.first, g.last), (s.until-1)/minute)}
}

// findGapLocked adds the gap before a line, as far as it lies in the part of the traffic that is
// decided.
func (t *logTally) findGapLocked(l *logLine, of *source, at int64) {
	now := at / minute
	last, ok := t.last[of]
	t.last[of] = now
	if l.dropped == 0 {
		return
	}
	if l.since > 0 { // exact, and known for the first line of a file, too
		last, ok = l.since/minute, true
	}
	if !ok {
		last = now
	}
	if g := (gap{last, now}).within(&of.span); g.first <= g.last {
		t.dropped += l.dropped
		t.addGapLocked(g)
	}
}

// foresee adds a gap before its line is read. The line then adds it again, which changes nothing.
func (t *logTally) foresee(g gap, decided *span) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if g = g.within(decided); g.first <= g.last {
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
