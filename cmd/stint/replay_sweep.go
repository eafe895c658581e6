package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/replay"
	"github.com/stintdev/stint/internal/suggest"
	"github.com/stintdev/stint/rule"
)

// sweepNumbers are the numbers of a limit that --sweep can vary.
var sweepNumbers = map[string]func(s *stint.Spec, n int64){
	"limit":    func(s *stint.Spec, n int64) { s.Limit = n },
	"burst":    func(s *stint.Spec, n int64) { s.Capacity = n },
	"capacity": func(s *stint.Spec, n int64) { s.Capacity = n },
	"queue":    func(s *stint.Spec, n int64) { s.Queue = n },
	"window":   func(s *stint.Spec, n int64) { s.Window = time.Duration(n) * time.Second },
}

// sweep decides the inputs by all limits of --sweep.
func (f *replayFlags) sweep(cmd *cobra.Command, args []string, o replay.Options) error {
	s, err := f.swept(o.Rules)
	if err != nil {
		return err
	}
	inputs, err := openInputs(args, cmd.InOrStdin())
	if err != nil {
		return err
	}
	defer inputs.close()
	each, of := s.bytes(o.Rules), ""
	if s.rule != nil {
		of = " of each rule"
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "sweep: %d limits need up to %d bytes of memory for each key%s: %.1f GB for a million keys\n", len(s.limits), each, of, float64(each)/1e3)
	progress := newProgressLine(cmd.ErrOrStderr(), inputs.size)
	o.Progress = progress.show
	ctx, restore := untilSignal(cmd.Context())
	defer restore()
	report, err := s.decide(ctx, o, inputs.named)
	progress.clear()
	if wrong := unknownBy(err); wrong != nil {
		return wrong
	}
	writeStack(cmd.ErrOrStderr(), err)
	if report.CutShort && ctx.Err() != nil {
		err = errInterrupted
	}
	printBadLines(cmd.ErrOrStderr(), report.UnreadableLines, report.Unreadable)
	if err == nil && report.DecisionLog == nil {
		printNothingRead(cmd.ErrOrStderr(), report.Events, report.Outside, report.Unreadable)
	}
	printLate(cmd.ErrOrStderr(), report.Late, report.Events, report.LastUS)
	if !f.report.json {
		return errors.Join(err, report.WriteText(cmd.OutOrStdout(), s.name))
	}
	text := json.NewEncoder(cmd.OutOrStdout())
	text.SetIndent("", "  ")
	return errors.Join(err, text.Encode(report))
}

// sweep are the limits of --sweep.
type sweep struct {
	name   string // of the number that differs between them, or RULE.NUMBER
	limits []replay.Swept
	rule   *rule.Rule  // nil: the limit of --limit is varied
	from   stint.Limit // the limit of the rule
}

// bytes returns about how much memory all limits take at most for a key of one rule.
func (s *sweep) bytes(rules *rule.Set) (all int) {
	others := 0
	for _, r := range rules.Rules() {
		if r.Mode == rule.Off {
			continue
		}
		for _, e := range r.Effective(rules) {
			one := 0
			for _, l := range e.Limits {
				if l != s.from {
					one += replay.StateBytes(l)
				}
			}
			others = max(others, one)
		}
	}
	for i := range s.limits {
		all += max(replay.StateBytes(s.limits[i].Limit), others)
	}
	return all
}

func (s *sweep) decide(ctx context.Context, o replay.Options, inputs []replay.Input) (replay.SweepReport, error) {
	if s.rule == nil {
		return replay.Sweep(ctx, o, s.limits, inputs...)
	}
	return replay.SweepRule(ctx, o, s.rule, s.from, s.limits, inputs...)
}

// swept returns the limits of --sweep.
func (f *replayFlags) swept(rules *rule.Set) (s sweep, err error) {
	for _, other := range []struct {
		flag  string
		given bool
	}{
		{"decisions", f.decisions != ""}, {"html", f.html != ""}, {"against", f.report.against != ""}, {"store", f.store != memoryStore}, {"retries", f.retries != replay.NoRetries.String()},
	} {
		if other.given {
			return s, usagef("--sweep: decides by several limits in memory, so it cannot be used beside --%s (remove one)", other.flag)
		}
	}
	name, values, err := parseSweep(f.sweepText)
	if err != nil {
		return s, err
	}
	s.name = name
	var spec stint.Spec
	id, number, ofRule := cutLast(name, ".")
	switch {
	case ofRule && rules == nil:
		return s, usagef("--sweep: %.40q names a rule, and there are no --rules (write it as %s=…)", name, number)
	case !ofRule && rules != nil:
		return s, usagef("--sweep: %.40q names no rule of --rules (write it as RULE.%s=…)", name, number)
	case ofRule:
		spec, err = s.ofRule(rules, id, number)
	default:
		if spec, err = rule.ParseSpec([]byte(f.limit)); err != nil {
			err = usagef("--limit: %w", err)
		}
	}
	if err != nil {
		return s, err
	}
	for _, n := range values {
		sweepNumbers[number](&spec, n)
		limit, err := spec.Compile()
		if err != nil {
			return s, usagef("--sweep: %s=%d: %w", name, n, err)
		}
		s.limits = append(s.limits, replay.Swept{Value: n, Limit: limit})
	}
	return s, nil
}

// ofRule sets the rule whose number is varied, and returns its limit.
func (s *sweep) ofRule(rules *rule.Set, id, number string) (spec stint.Spec, err error) {
	if s.rule = rules.Rule(id); s.rule == nil {
		var known []string
		for _, r := range rules.Rules() {
			known = append(known, r.ID)
		}
		return spec, usagef("--sweep: --rules has no rule %.40q (%s)", id, hint(id, known))
	}
	for _, e := range s.rule.Effective(rules) {
		if e.Override == "" && (e.Tier == "" || e.Tier == s.rule.Tier) && len(e.Limits) == 1 {
			s.from = e.Limits[0]
		}
	}
	if !s.from.Valid() || s.rule.Mode == rule.Off || s.rule.DenyAll() {
		return spec, usagef("--sweep: the rule %.40q has no single limit to vary (it has several, or takes them from tiers, denies all, or has mode off)", id)
	}
	spec = s.from.Spec()
	if number == "limit" && spec.Capacity == spec.Limit { // the burst is by default the limit
		spec.Capacity = 0
	}
	return spec, nil
}

// cutLast cuts a text around the last separator. Without one, after is the whole text.
func cutLast(text, separator string) (before, after string, found bool) {
	at := strings.LastIndex(text, separator)
	if at < 0 {
		return "", text, false
	}
	return text[:at], text[at+len(separator):], true
}

// parseSweep parses limit=5..100:5.
func parseSweep(text string) (name string, values []int64, err error) {
	name, span, assigned := strings.Cut(text, "=")
	first, rest, ranged := strings.Cut(span, "..")
	last, step, stepped := strings.Cut(rest, ":")
	if !stepped {
		step = "1"
	}
	if !assigned || !ranged {
		return "", nil, usagef("--sweep: %.40q is not a sweep (write it as limit=5..100:5, that is the number, the first value, the last, and the step; with --rules, RULE.limit)", text)
	}
	_, number, _ := cutLast(name, ".")
	if sweepNumbers[number] == nil {
		return "", nil, usagef("--sweep: %.40q is not a number of a limit (%s)", number, hint(number, []string{"limit", "burst", "queue", "window"}))
	}
	var n [3]int64
	for i, value := range [...]string{first, last, step} {
		least := int64(1)
		if number == "queue" && i == 0 {
			least = 0
		}
		if n[i], err = strconv.ParseInt(value, 10, 64); err != nil || n[i] < least || n[i] > stint.MaxLimit {
			what := [...]string{"first value", "last value", "step"}[i]
			return "", nil, usagef("--sweep: %.40s: the %s %.40q is out of range (use a whole number from %d to %d)", name, what, value, least, int64(stint.MaxLimit))
		}
	}
	if n[0] > n[1] {
		return "", nil, usagef("--sweep: %.40s: the first value, %d, is above the last (write %d..%d)", name, n[0], n[1], n[0])
	}
	if count := (n[1]-n[0])/n[2] + 1; count > replay.MostSwept {
		return "", nil, usagef("--sweep: %.40s has %d values (use at most %d: a greater step, such as :%d)", name, count, replay.MostSwept, (n[1]-n[0])/(replay.MostSwept-1)+1)
	}
	for v := n[0]; v <= n[1]; v += n[2] {
		values = append(values, v)
	}
	return name, values, nil
}

// hint says which of the known names a wrong one may stand for, or which there are.
func hint(wrong string, known []string) string {
	if near, ok := suggest.Name(wrong, known); ok {
		return "did you mean " + near + "?"
	}
	if more := len(known) - shownNames; more > 0 {
		return fmt.Sprintf("use one of %s and %d others", strings.Join(known[:shownNames], ", "), more)
	}
	return "use one of " + strings.Join(known, ", ")
}

// shownNames is the greatest number of names in a hint.
const shownNames = 20
