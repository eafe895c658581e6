package replay

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// Summary is the result of a replay.
type Summary struct {
	Events      int64   `json:"events"` // number of decided events
	Keys        int64   `json:"keys"`   // number of distinct keys that were counted
	Allowed     int64   `json:"allowed"`
	Denied      int64   `json:"denied"`
	ShareDenied float64 `json:"share_denied"` // share of events, 0 to 1

	// Late counts the events that were decided after an event with a later time.
	Late int64 `json:"late"`
	// Unreadable counts the lines that could not be read, which are not events.
	// UnreadableLines are the first of them.
	Unreadable      int64     `json:"unreadable"`
	UnreadableLines []BadLine `json:"unreadable_lines"`

	// Outside counts the events before Since or not before Until.
	Outside int64 `json:"outside,omitempty"`
	// Missing counts the events without the attribute that the limit counts by.
	Missing int64 `json:"missing,omitempty"`

	// FirstUS and LastUS are the least and the greatest time of an event, in
	// microseconds since the Unix epoch.
	FirstUS int64 `json:"first_us"`
	LastUS  int64 `json:"last_us"`

	PerRule       []RuleCount `json:"per_rule"`        // in file order
	TopKeysDenied []KeyCount  `json:"top_keys_denied"` // at most 10; credentials are shortened

	DecisionLog *LogSummary   `json:"decision_log,omitempty"` // nil if no input is one
	Retries     *RetrySummary `json:"retries,omitempty"`      // nil without retries
}

// count counts one decided event.
func (r *replay) count(p *pending, of *result) {
	c := &r.counts
	if c.Events == 0 {
		c.FirstUS, c.LastUS = p.t, p.t
	}
	c.Events++
	if p.t < c.LastUS {
		c.Late++
	}
	c.FirstUS, c.LastUS = min(c.FirstUS, p.t), max(c.LastUS, p.t)
	if p.caller != 0 {
		r.log.count(p.t, p.caller, of.decision.Allowed)
	}
	if of.decision.Allowed {
		c.Allowed++
		return
	}
	c.Denied++
}

func (r *replay) summary() Summary {
	s := r.counts
	s.Keys = int64(r.keys.seen.total())
	if s.Events > 0 {
		s.ShareDenied = float64(s.Denied) / float64(s.Events)
	}
	s.Unreadable = r.merger.bad.count
	s.UnreadableLines = append([]BadLine{}, r.merger.bad.first...)
	s.Outside, s.Missing = r.how.span.outside.Load(), r.how.by.missing.Load()
	s.PerRule = append([]RuleCount{}, r.decider.perRule()...)
	s.TopKeysDenied = r.keys.top()
	s.DecisionLog = r.logSummary()
	s.Retries = r.retrier.summary()
	return s
}

// WriteTable writes the summary as a table for people.
func (s *Summary) WriteTable(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "events\t%d\n", s.Events)
	if s.Events > 0 {
		fmt.Fprintf(w, "time\t%s to %s\n", timeText(s.FirstUS), timeText(s.LastUS))
	}
	fmt.Fprintf(w, "keys\t%d\nallowed\t%d\ndenied\t%d\nshare denied\t%.2f %%\n", s.Keys, s.Allowed, s.Denied, 100*s.ShareDenied)
	fmt.Fprintf(w, "late\t%d\nunreadable\t%d\n", s.Late, s.Unreadable)
	if s.Outside > 0 {
		fmt.Fprintf(w, "outside\t%d\n", s.Outside)
	}
	if s.Missing > 0 {
		fmt.Fprintf(w, "missing\t%d\n", s.Missing)
	}
	s.DecisionLog.write(w)
	s.Retries.write(w)
	s.writeRules(w)
	s.writeKeys(w)
	return w.Flush()
}

func timeText(us int64) string { return time.UnixMicro(us).UTC().Format(time.RFC3339Nano) }

// writeRules writes the counts of the rules. It writes nothing when a limit is
// replayed, because its counts equal the totals.
func (s *Summary) writeRules(w io.Writer) {
	if !slices.ContainsFunc(s.PerRule, func(c RuleCount) bool { return c.Rule != "" }) {
		return
	}
	fmt.Fprint(w, "\nrule\tmode\tevents\tallowed\tdenied\n")
	for _, c := range s.PerRule {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\n", c.Rule, c.Mode, c.Events, c.Allowed, c.Denied)
	}
}

func (s *Summary) writeKeys(w io.Writer) {
	if len(s.TopKeysDenied) == 0 {
		return
	}
	fmt.Fprint(w, "\ntop keys denied\ttimes\n")
	for _, k := range s.TopKeysDenied {
		fmt.Fprintf(w, "%s\t%d\n", k.Key, k.Denied)
	}
}

// BadLine is a line that could not be read or whose event could not be decided.
type BadLine struct {
	Input  string `json:"input"`
	Line   int64  `json:"line"` // from 1
	Reason string `json:"reason"`
}

// shownBadLines is the number of bad lines in a summary.
const shownBadLines = 5

// badLines counts bad lines and keeps the first ones.
type badLines struct {
	count int64
	first []BadLine
}

func (b *badLines) add(line BadLine) {
	b.count++
	if len(b.first) < shownBadLines {
		b.first = append(b.first, line)
	}
}

func (b *badLines) addAll(more *badLines) {
	b.count += more.count
	room := min(shownBadLines-len(b.first), len(more.first))
	b.first = append(b.first, more.first[:room]...)
}
