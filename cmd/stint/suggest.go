package main

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint/cmd/stint/internal/limitsearch"
	"github.com/stintdev/stint/cmd/stint/internal/replay"
)

// suggestFlags are the flags of stint suggest.
type suggestFlags struct {
	inputFlags

	by, denyBelow string
	callers       int
	keys          shownKeys
	json          bool
}

func newSuggestCommand() *cobra.Command {
	var f suggestFlags
	c := &cobra.Command{
		Use:   "suggest --by ATTR [--deny-below SHARE] INPUT…",
		Short: "Find the least limits that would have denied little of recorded traffic",
		Long: `Find the least limits that deny less than a share of the requests in a recording,
and less than the same share of their callers: for windows of a second, a minute, an
hour and a day, and for token buckets of many rates. The answers are exact: a replay
of one unit less denies too much.

` + inputsHelp + `

ATTR is the attribute to count by: ip, user, header:user-agent, or any member of a
JSON line, such as key.`,
		Example: `  stint suggest --by ip --deny-below 1% access.log
  stint suggest --by api_key --deny-below 0.1% --json events.jsonl.gz
  stint suggest --by ip --callers 10 access.log`,
		Args: arguments(1, noMaximum, "at least one input", "access.log, or - for standard input"),
		RunE: f.run,
	}
	flags := c.Flags()
	flags.StringVar(&f.by, "by", "", "the attribute `ATTR` that limits count by")
	flags.StringVar(&f.denyBelow, "deny-below", "1%", "the `SHARE` of requests and of callers to deny less of, such as 1% or 0.01")
	flags.IntVar(&f.callers, "callers", 0, "also list the `N` callers with the most requests, at most "+strconv.Itoa(replay.MostTop)+"; their keys are then kept in memory")
	f.keys.define(flags)
	flags.BoolVar(&f.json, "json", false, "print the report as JSON")
	f.define(c)
	return c
}

func (f *suggestFlags) run(cmd *cobra.Command, args []string) error {
	options, err := f.options()
	if err != nil {
		return err
	}
	inputs, err := openInputs(args, cmd.InOrStdin())
	if err != nil {
		return err
	}
	defer inputs.close()
	progress := newProgressLine(cmd.ErrOrStderr(), inputs.size)
	options.Replay.Progress = progress.show
	ctx, restore := untilSignal(cmd.Context())
	defer restore()
	report, err := limitsearch.Find(ctx, options, inputs.named...)
	progress.clear()
	if wrong := unknownBy(err); wrong != nil {
		return wrong
	}
	writeStack(cmd.ErrOrStderr(), err)
	if ctx.Err() != nil {
		err = suggestInterrupted(&report, err)
	}
	printBadLines(cmd.ErrOrStderr(), report.UnreadableLines, report.Unreadable)
	if err == nil && report.DecisionLog == nil {
		printNothingRead(cmd.ErrOrStderr(), report.Events, report.Outside, report.Unreadable)
	}
	printLate(cmd.ErrOrStderr(), report.Late, report.Events, report.LastUS)
	if !f.json {
		return errors.Join(err, report.WriteText(cmd.OutOrStdout()))
	}
	text := json.NewEncoder(cmd.OutOrStdout())
	text.SetIndent("", "  ")
	return errors.Join(err, text.Encode(report))
}

// suggestInterrupted returns the error of a search that may have ended at a signal.
func suggestInterrupted(report *limitsearch.Report, err error) error {
	switch {
	case report.CutShort:
		return errors.New("suggest: interrupted: the report covers the events read so far")
	case errors.Is(err, context.Canceled):
		return errors.New("suggest: interrupted during the search: the report has no limits")
	}
	return err
}

// options checks the flags and converts them.
func (f *suggestFlags) options() (o limitsearch.Options, err error) {
	if err = f.set(&o.Replay); err != nil {
		return o, err
	}
	if f.by == "" {
		return o, usagef("--by: is missing (name the attribute to count by, such as --by ip or --by key)")
	}
	o.Replay.By = f.by
	share, ok := shareOf(f.denyBelow)
	if !ok {
		return o, usagef("--deny-below: %.40q is not a share (write it as 1%% or 0.01: above 0 and at most 100%%)", f.denyBelow)
	}
	o.DenyBelow = share
	if f.callers < 0 || f.callers > replay.MostTop {
		return o, usagef("--callers: %d is out of range (give a number from 0 to %d)", f.callers, replay.MostTop)
	}
	o.Busiest = f.callers
	return o, f.keys.set(&o.Replay)
}
