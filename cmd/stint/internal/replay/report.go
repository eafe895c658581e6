package replay

// Report is the result of a replay. Its JSON names do not change.
type Report struct {
	// CutShort says that the replay ended early, such as at a signal: the report covers the events
	// decided until then.
	CutShort bool `json:"cut_short,omitempty"`

	Events      int64   `json:"events"` // number of decided events
	Keys        int64   `json:"keys"`   // number of distinct keys that were counted
	Allowed     int64   `json:"allowed"`
	Denied      int64   `json:"denied"`
	ShareDenied float64 `json:"share_denied"` // share of events, 0 to 1
	// DeniedByList counts the events that a deny list denied, of the rules or of one rule.
	DeniedByList int64 `json:"denied_by_list"`

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
	TopKeysDenied []KeyCount  `json:"top_keys_denied"` // the keys of the binding claims

	Callers       int64    `json:"callers"`
	CallersDenied int64    `json:"callers_denied"` // callers with at least one denial
	TopCallers    []Caller `json:"top_callers"`    // those with the most denials

	OverTime    Series        `json:"over_time"`
	Compare     *Comparison   `json:"compare,omitempty"`      // nil without [Options.Against]
	DecisionLog *LogSummary   `json:"decision_log,omitempty"` // nil if no input is one
	Retries     *RetrySummary `json:"retries,omitempty"`      // nil without retries
}

// emptyReport returns the report of a replay that decided nothing.
func emptyReport() Report {
	return Report{UnreadableLines: []BadLine{}, PerRule: []RuleCount{}, TopKeysDenied: []KeyCount{}, TopCallers: []Caller{}, OverTime: Series{Events: []int64{}, Denied: []int64{}}}
}

// Series has counts in steps of equal length. Times are in microseconds since the Unix epoch.
type Series struct {
	StartUS int64   `json:"start_us"` // when the first step begins
	StepUS  int64   `json:"step_us"`
	Events  []int64 `json:"events"`
	Denied  []int64 `json:"denied"`
}

// The lines of the series of a replay. Two lines of each rule follow them, and then two of
// each rule in the comparison.
const (
	lineEvents = iota
	lineDenied
	lineNewlyDenied
	lineNewlyAllowed
	lineDeniedAfter
	lineRules
)

// The two lines of a rule, and those of a rule in the comparison.
const (
	ruleEvents, ruleDenied = 0, 1
	ruleBefore, ruleAfter  = 0, 1
	linesOfRule            = 2
)

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
	r.callers.count(of.caller, &of.decision, p, r.decider)
	at := r.series.at(p.t)
	at[lineEvents]++
	for _, n := range of.counted {
		at[lineRules+linesOfRule*n+ruleEvents]++
	}
	for _, n := range of.denied {
		at[lineRules+linesOfRule*n+ruleDenied]++
	}
	if of.decision.Allowed {
		c.Allowed++
		return
	}
	c.Denied++
	at[lineDenied]++
}

func (r *replay) report() Report {
	s, top := r.counts, r.options.Top
	if s.Events > 0 {
		s.ShareDenied = float64(s.Denied) / float64(s.Events)
	}
	s.Unreadable = r.merger.bad.count
	s.UnreadableLines = append([]BadLine{}, r.merger.bad.first...)
	s.Outside, s.Missing = r.how.span.outside.Load(), r.how.by.missing.Load()
	keys, denied := r.decider.keys(top)
	s.Keys, s.TopKeysDenied = int64(keys), append([]KeyCount{}, denied...)
	s.Callers, s.CallersDenied = int64(r.callers.requests.count), int64(r.callers.denied.counts.count)
	s.TopCallers = r.callers.top(top, r.options.show)
	s.OverTime = Series{StartUS: r.series.start, StepUS: r.series.step, Events: r.series.line(lineEvents), Denied: r.series.line(lineDenied)}
	s.PerRule = append([]RuleCount{}, r.decider.perRule()...)
	s.DeniedByList = s.Denied
	for i := range s.PerRule {
		s.PerRule[i].EventsOverTime = r.series.line(lineRules + linesOfRule*i + ruleEvents)
		s.PerRule[i].DeniedOverTime = r.series.line(lineRules + linesOfRule*i + ruleDenied)
		s.DeniedByList -= s.PerRule[i].Binding
	}
	if r.comparison != nil {
		s.Compare = r.comparison.report(top, r.callers.requests, r.series, r.options.show)
	}
	s.DecisionLog = r.logSummary()
	s.Retries = r.retrier.summary()
	return s
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
