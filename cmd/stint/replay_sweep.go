package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

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
}

// sweep decides the inputs by all limits of --sweep.
func (f *replayFlags) sweep(cmd *cobra.Command, args []string, o replay.Options) error {
	name, limits, err := f.swept()
	if err != nil {
		return err
	}
	inputs, err := openInputs(args, cmd.InOrStdin())
	if err != nil {
		return err
	}
	defer inputs.close()
	each := len(limits) * replay.SweptBytes
	fmt.Fprintf(cmd.ErrOrStderr(), "sweep: %d limits need up to %d bytes of memory for each key: %.1f GB for a million keys\n", len(limits), each, float64(each)/1e3)
	progress := newProgressLine(cmd.ErrOrStderr(), inputs.size)
	o.Progress = progress.show
	report, err := replay.Sweep(cmd.Context(), o, limits, inputs.named...)
	progress.clear()
	if wrong := unknownBy(err); wrong != nil {
		return wrong
	}
	printBadLines(cmd.ErrOrStderr(), report.UnreadableLines, report.Unreadable)
	if err == nil && report.DecisionLog == nil {
		printNothingRead(cmd.ErrOrStderr(), report.Events, report.Outside, report.Unreadable)
	}
	if !f.report.json {
		return errors.Join(err, report.WriteText(cmd.OutOrStdout(), name))
	}
	text := json.NewEncoder(cmd.OutOrStdout())
	text.SetIndent("", "  ")
	return errors.Join(err, text.Encode(report))
}

// swept returns the limits of --sweep, and the number that differs between them.
func (f *replayFlags) swept() (name string, limits []replay.Swept, err error) {
	for flag, given := range map[string]bool{"rules": f.rules != "", "decisions": f.decisions != "", "html": f.html != "", "against": f.report.against != "", "store": f.store != memoryStore, "retries": f.retries != replay.NoRetries.String()} {
		if given {
			return "", nil, usagef("--sweep: varies --limit in memory, so it cannot be used beside --%s (remove one)", flag)
		}
	}
	name, values, err := parseSweep(f.sweepText)
	if err != nil {
		return "", nil, err
	}
	spec, err := rule.ParseSpec([]byte(f.limit))
	if err != nil {
		return "", nil, usagef("--limit: %w", err)
	}
	for _, n := range values {
		sweepNumbers[name](&spec, n)
		limit, err := spec.Compile()
		if err != nil {
			return "", nil, usagef("--sweep: %s=%d: %w", name, n, err)
		}
		limits = append(limits, replay.Swept{Value: n, Limit: limit})
	}
	return name, limits, nil
}

// parseSweep parses limit=5..100:5.
func parseSweep(text string) (name string, values []int64, err error) {
	wrong := func() (string, []int64, error) {
		return "", nil, usagef("--sweep: %.40q is not a sweep (write it as limit=5..100:5, that is the number, the first value, the last, and the step; the numbers are limit, burst and queue)", text)
	}
	name, span, _ := strings.Cut(text, "=")
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
	if !ok || sweepNumbers[name] == nil || n[0] > n[1] {
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
