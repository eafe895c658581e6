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
	each, of := len(s.limits)*replay.SweptBytes, ""
	if s.rule != nil {
		of = " of each rule"
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "sweep: %d limits need up to %d bytes of memory for each key%s: %.1f GB for a million keys\n", len(s.limits), each, of, float64(each)/1e3)
	progress := newProgressLine(cmd.ErrOrStderr(), inputs.size)
	o.Progress = progress.show
	report, err := s.decide(cmd.Context(), o, inputs.named)
	progress.clear()
	if wrong := unknownBy(err); wrong != nil {
		return wrong
	}
	printBadLines(cmd.ErrOrStderr(), report.UnreadableLines, report.Unreadable)
	if err == nil && report.DecisionLog == nil {
		printNothingRead(cmd.ErrOrStderr(), report.Events, report.Outside, report.Unreadable)
	}
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

func (s *sweep) decide(ctx context.Context, o replay.Options, inputs []replay.Input) (replay.SweepReport, error) {
	if s.rule == nil {
		return replay.Sweep(ctx, o, s.limits, inputs...)
	}
	return replay.SweepRule(ctx, o, s.rule, s.from, s.limits, inputs...)
}

// swept returns the limits of --sweep.
func (f *replayFlags) swept(rules *rule.Set) (s sweep, err error) {
	for flag, given := range map[string]bool{"decisions": f.decisions != "", "html": f.html != "", "against": f.report.against != "", "store": f.store != memoryStore, "retries": f.retries != replay.NoRetries.String()} {
		if given {
			return s, usagef("--sweep: decides by several limits in memory, so it cannot be used beside --%s (remove one)", flag)
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
		return spec, usagef("--sweep: --rules has no rule %.40q", id)
	}
	for _, e := range s.rule.Effective(rules) {
		if e.Override == "" && (e.Tier == "" || e.Tier == s.rule.Tier) && len(e.Limits) == 1 {
			s.from = e.Limits[0]
		}
	}
	if !s.from.Valid() || s.rule.Mode == rule.Off {
		return spec, usagef("--sweep: the rule %.40q has no single limit to vary (it has several, none, or mode off)", id)
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
	wrong := func() (string, []int64, error) {
		return "", nil, usagef("--sweep: %.40q is not a sweep (write it as limit=5..100:5, that is the number, the first value, the last, and the step; the numbers are limit, burst, queue and window, in seconds; with --rules, RULE.limit)", text)
	}
	name, span, _ := strings.Cut(text, "=")
	_, number, _ := cutLast(name, ".")
	first, rest, ok := strings.Cut(span, "..")
	last, step, stepped := strings.Cut(rest, ":")
	if !stepped {
		step = "1"
	}
	var n [3]int64
	for i, text := range [...]string{first, last, step} {
		if n[i], err = strconv.ParseInt(text, 10, 64); err != nil || n[i] < 1 || n[i] > stint.MaxLimit {
			return wrong()
		}
	}
	if !ok || sweepNumbers[number] == nil || n[0] > n[1] {
		return wrong()
	}
	if count := (n[1]-n[0])/n[2] + 1; count > replay.MostSwept {
		return "", nil, usagef("--sweep: %s has %d values (use at most %d: a greater step, such as :%d)", text, count, replay.MostSwept, (n[1]-n[0])/(replay.MostSwept-1)+1)
	}
	for v := n[0]; v <= n[1]; v += n[2] {
		values = append(values, v)
	}
	return name, values, nil
}
