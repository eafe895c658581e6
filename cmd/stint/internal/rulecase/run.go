package rulecase

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/penalty"
	"github.com/stintdev/stint/rule"
)

// Run decides the requests of a case in the order of their times, and compares the
// decisions with what is expected. A request that the rules refuse to decide is a failure of the
// case. newStore returns an empty store that reads the clock; the case is alone on it. The only error
// is that of ctx.
func (f *File) Run(ctx context.Context, c *Case, newStore func(clock func() time.Time) stint.Store) (*Result, error) {
	run := newRun(f.Set, c, newStore)
	for _, e := range c.events() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		run.decide(ctx, e)
	}
	slices.SortStableFunc(run.result.Failures, func(a, b Failure) int { return cmp.Compare(a.Line, b.Line) })
	return &run.result, nil
}

// event is one request.
type event struct {
	t      int64 // µs since the Unix epoch
	series int
	last   bool // of its series
}

// events returns the requests of a case in the order of their times. Requests of the same
// time keep the order of the file.
func (c *Case) events() []event {
	var all []event
	for i := range c.series {
		s := &c.series[i]
		for k := range s.times {
			all = append(all, event{s.at + int64(k)*s.every.Microseconds(), i, k == s.times-1})
		}
	}
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.t, b.t) })
	return all
}

// run is a case while it runs.
type run struct {
	set       *rule.Set
	series    []series
	now       int64 // of the store, in µs since the Unix epoch
	start     int64
	store     *penalty.Store
	decisions []tally // by series
	result    Result
}

// tally counts the decisions on a series.
type tally struct{ allowed, denied int }

func newRun(set *rule.Set, c *Case, newStore func(clock func() time.Time) stint.Store) *run {
	r := &run{set: set, series: c.series, start: math.MaxInt64, decisions: make([]tally, len(c.series)), result: Result{Name: c.Name, Line: c.Line}}
	for i := range c.series {
		r.start = min(r.start, c.series[i].at)
	}
	r.store = penalty.New(newStore(func() time.Time { return time.UnixMicro(r.now) }), noObserver{}, nil)
	r.store.Use(set)
	return r
}

// noObserver ignores punishments: the decisions show them.
type noObserver struct{}

func (noObserver) Began(*penalty.Punishment) {}
func (noObserver) Denied(string)             {}

// timedAttributes are the attributes of a request with its time, which decides whether list
// entries and overrides have expired.
type timedAttributes struct {
	rule.Map

	t int64
}

// At returns the time of the request.
func (a timedAttributes) At() int64 { return a.t }

func (r *run) decide(ctx context.Context, e event) {
	r.now = e.t
	s, counts := &r.series[e.series], &r.decisions[e.series]
	fail := func(format string, args ...any) {
		after := time.Duration(e.t-r.start) * time.Microsecond
		r.result.Failures = append(r.result.Failures, Failure{s.want.line, s.want.column, after, fmt.Sprintf(format, args...)})
	}
	r.result.Requests++
	o, err := r.set.Decide(ctx, r.store, timedAttributes{s.attributes, e.t}, s.cost)
	if err != nil {
		if !r.failed(s) {
			fail("the rules cannot decide the request: %v", err)
		}
		return
	}
	if o.Allowed() {
		counts.allowed++
	} else {
		counts.denied++
	}
	if s.want.each != nil && o.Allowed() != *s.want.each && !r.failed(s) {
		fail("decision is %s, want %s", described(&o), word(*s.want.each))
	}
	if e.last {
		s.want.compare(&o, counts, fail)
	}
}

// failed reports whether a series has failed already: its first failure says enough.
func (r *run) failed(s *series) bool {
	return slices.ContainsFunc(r.result.Failures, func(f Failure) bool { return f.Line == s.want.line && f.Column == s.want.column })
}

// compare compares the decision on the last request of a series, and the counts of all.
func (w *expectation) compare(o *rule.Outcome, counts *tally, fail func(format string, args ...any)) {
	if w.allowed != nil && *w.allowed != counts.allowed {
		fail("%d requests are allowed, want %d", counts.allowed, *w.allowed)
	}
	if w.denied != nil && *w.denied != counts.denied {
		fail("%d requests are denied, want %d", counts.denied, *w.denied)
	}
	a, d := &w.last, &o.Decision
	if a.allowed != nil && *a.allowed != o.Allowed() {
		fail("decision is %s, want %s", described(o), word(*a.allowed))
	}
	differ(fail, "rule", ruleOf(o), a.rule)
	differ(fail, "list", o.List.String(), a.list)
	differ(fail, "limit", d.Limit, a.limit)
	differ(fail, "remaining", d.Remaining, a.remaining)
	differ(fail, "retry_after", waitText(d.RetryAfter), textOf(a.retryAfter))
	differ(fail, "reset_after", waitText(d.ResetAfter), textOf(a.resetAfter))
	differ(fail, "delay", waitText(d.Delay), textOf(a.delay))
	if a.shadow != nil {
		got := shadowDenials(o)
		differ(fail, "shadow_deny", "["+strings.Join(got, ", ")+"]", new("["+strings.Join(*a.shadow, ", ")+"]"))
	}
}

func differ[T comparable](fail func(format string, args ...any), field string, got T, want *T) {
	if want != nil && got != *want {
		fail("%s is %s, want %s", field, shown(got), shown(*want))
	}
}

// shown returns a value as the file writes it.
func shown(value any) string {
	if text := fmt.Sprint(value); text != "" {
		return text
	}
	return "none"
}

func textOf(d *time.Duration) *string {
	if d == nil {
		return nil
	}
	return new(waitText(*d))
}

func waitText(d time.Duration) string {
	if d == stint.Never {
		return "never"
	}
	return d.String()
}

func word(allowed bool) string {
	if allowed {
		return "allow"
	}
	return "deny"
}

// ruleOf returns the rule whose claim gave the answer, or "".
func ruleOf(o *rule.Outcome) string {
	if o.Binding < 0 {
		return ""
	}
	return o.Hits[o.Binding].Rule.ID
}

// described returns a decision and where it comes from.
func described(o *rule.Outcome) string {
	text := word(o.Allowed())
	switch {
	case o.List != rule.ListNone:
		return text + " by the " + o.List.String() + " list"
	case o.Binding < 0:
		return text + " (no rule counts the request)"
	case o.Allowed():
		return fmt.Sprintf("%s by rule %s (remaining %d)", text, ruleOf(o), o.Decision.Remaining)
	}
	return fmt.Sprintf("%s by rule %s (retry_after %s)", text, ruleOf(o), waitText(o.Decision.RetryAfter))
}

// shadowDenials returns the sorted ids of the rules in shadow mode that would have denied.
func shadowDenials(o *rule.Outcome) []string {
	denied := map[*rule.Rule]bool{} // false: an alternative admitted
	for i := range o.Hits {
		h := &o.Hits[i]
		if !h.Shadow {
			continue
		}
		before, seen := denied[h.Rule]
		switch {
		case !seen:
			denied[h.Rule] = !h.Decision.Allowed
		case h.Rule.Any():
			denied[h.Rule] = before && !h.Decision.Allowed
		default:
			denied[h.Rule] = before || !h.Decision.Allowed
		}
	}
	ids := []string{}
	for r, is := range denied {
		if is {
			ids = append(ids, r.ID)
		}
	}
	slices.Sort(ids)
	return ids
}
