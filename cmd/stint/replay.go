package main

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint/cmd/stint/internal/replay"
	"github.com/stintdev/stint/rule"
)

// replayFlags are the flags of stint replay.
type replayFlags struct {
	inputFlags

	rules, limit, by         string
	store, storePasswordFile string
	decisions, html          string
	sweepText, retries       string
	rulesName                string // of --rules, in reports
	report                   replayReport
}

func newReplayCommand() *cobra.Command {
	var f replayFlags
	c := &cobra.Command{
		Use:   "replay (--rules FILE | --limit LIMIT --by ATTR) INPUT…",
		Short: "Show what rules or a limit would have done to recorded traffic",
		Long: `Decide recorded traffic at the times in the recording, and report how much of it
would have been allowed and denied: by which rule, of which callers and when. With
--against, also report what other rules would decide differently.

` + inputsHelp + `

A LIMIT is 100/m (also s, h, d) or a JSON object. ATTR is the attribute to count
by: ip, user, method, path, header:user-agent, or any member of a JSON line, such
as key.`,
		Example: `  stint replay --limit 10/m --by ip access.log
  stint replay --limit 10/m --sweep limit=5..50:5 --by ip access.log
  stint replay --rules rules.yaml --json access.log access.log.1.gz
  stint replay --rules live --against rules.yaml access.log
  stint replay --rules rules.yaml --against new.yaml --html report.html access.log
  stint replay --limit '{"algorithm":"sliding_window_log","limit":5,"window":"1h"}' --by key --decisions - events.jsonl`,
		Args: arguments(1, noMaximum, "at least one input", "access.log, or - for standard input"),
		RunE: f.run,
	}
	flags := c.Flags()
	flags.StringVar(&f.rules, "rules", "", "decide by this rule `FILE`, or a folder of them; live: by the rules in force on --server; a number: by a version there")
	flags.StringVar(&f.limit, "limit", "", "decide by this one `LIMIT`, such as 100/m")
	flags.StringVar(&f.by, "by", "", "the attribute `ATTR` that --limit counts by")
	flags.StringVar(&f.store, "store", memoryStore, "`URL` of the store that decides, also rules that name another one; the replay uses keys of its own there and deletes them at the end")
	flags.StringVar(&f.storePasswordFile, "store-password-file", passwordFileOfEnvironment(), "`FILE` with the password of the store")
	flags.StringVar(&f.decisions, "decisions", "", "write each decision as a JSON line to `FILE`; - is standard output")
	flags.StringVar(&f.html, "html", "", "write the report with charts as one HTML page to `FILE`; - is standard output")
	flags.StringVar(&f.retries, "retries", "none", "`WHAT` clients do after a denial: none, polite (they wait as told) or hammer (they come again every 100 ms), up to ten times")
	flags.StringVar(&f.sweepText, "sweep", "", "compare limits that differ in a number, in one pass: `NUMBER=FIRST..LAST:STEP`, such as limit=5..100:5; with --rules of one rule, such as orders.limit=5..100:5")
	f.report.define(c)
	f.define(c)
	return c
}

func (f *replayFlags) run(cmd *cobra.Command, args []string) error {
	options, err := f.options(cmd)
	if err != nil {
		return err
	}
	if f.sweepText != "" {
		return f.sweep(cmd, args, options)
	}
	if err := f.report.options(cmd, &options); err != nil {
		return err
	}
	inputs, err := openInputs(args, cmd.InOrStdin())
	if err != nil {
		return err
	}
	defer inputs.close()
	ctx, restore := untilSignal(cmd.Context()) // a signal from here on leaves no hidden page behind
	defer restore()
	html, err := f.openHTML(cmd.OutOrStdout(), inputs)
	if err != nil {
		return err
	}
	defer html.discard()
	decisions, err := f.openDecisions(cmd.OutOrStdout(), inputs)
	if err != nil {
		return err
	}
	options.Decisions = decisions.Writer
	store, err := f.openStore(ctx, &options, cmd.ErrOrStderr())
	if err != nil {
		return errors.Join(err, decisions.close())
	}
	progress := newProgressLine(cmd.ErrOrStderr(), inputs.size)
	options.Progress = progress.show
	report, err := replay.Run(ctx, options, inputs.named...)
	progress.clear()
	if wrong := unknownBy(err); wrong != nil {
		return errors.Join(wrong, store.cleanUp(ctx), decisions.close())
	}
	writeStack(cmd.ErrOrStderr(), err)
	if report.CutShort && ctx.Err() != nil {
		err = errInterrupted
	}
	if err == nil && report.DecisionLog == nil {
		printNothingRead(cmd.ErrOrStderr(), report.Events, report.Outside, report.Unreadable)
	}
	printLate(cmd.ErrOrStderr(), report.Late, report.Events, report.LastUS)
	err = errors.Join(err, store.cleanUp(ctx), decisions.close())
	if err == nil || report.Events > 0 { // a replay that fails at once leaves the old page
		err = errors.Join(err, html.write(f.page(&report, &options, args)))
	}
	return errors.Join(err, f.print(cmd, &report))
}

// writeStack writes the stack of a panic in a replay.
func writeStack(w io.Writer, err error) {
	if defect, panicked := errors.AsType[*replay.PanicError](err); panicked {
		_, _ = w.Write(defect.Stack)
	}
}

// options checks the flags and converts them.
func (f *replayFlags) options(c *cobra.Command) (o replay.Options, err error) {
	if err := f.report.checkServer(c.Flags(), f.rules); err != nil {
		return o, err
	}
	if err = f.set(&o); err != nil {
		return o, err
	}
	if o.Retries, err = replay.ParseRetries(f.retries); err != nil {
		return o, usagef("--%w", err)
	}
	switch {
	case (f.rules == "") == (f.limit == ""):
		return o, usagef("replay: give either --rules FILE, or --limit LIMIT and --by ATTR")
	case f.rules != "" && f.by != "":
		return o, usagef("--by: belongs to --limit; each rule says what it counts by (remove it)")
	case f.rules != "":
		o.Rules, f.rulesName, err = f.report.load(c, "rules", f.rules)
		return o, err
	case f.by == "":
		return o, usagef("--by: is missing beside --limit (name the attribute to count by, such as --by ip or --by key)")
	}
	o.By = f.by
	if o.Limit, err = rule.ParseLimit([]byte(f.limit)); err != nil {
		return o, usagef("--limit: %w", err)
	}
	return o, nil
}

// print prints the first unreadable lines, and then the report: on standard
// output, or on standard error if the decisions or the page are on standard output.
func (f *replayFlags) print(cmd *cobra.Command, report *replay.Report) error {
	printBadLines(cmd.ErrOrStderr(), report.UnreadableLines, report.Unreadable)
	out := cmd.OutOrStdout()
	if f.decisions == "-" || f.html == "-" {
		out = cmd.ErrOrStderr()
	}
	if !f.report.json {
		return report.WriteText(out)
	}
	text := json.NewEncoder(out)
	text.SetIndent("", "  ")
	return text.Encode(report)
}
