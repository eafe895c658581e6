package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint/cmd/stint/internal/replay"
	"github.com/stintdev/stint/rule"
)

// replayFlags are the flags of "stint replay" as they were given.
type replayFlags struct {
	rules, limit, by         string
	store, storePasswordFile string
	format, decisions        string
	json                     bool
	reorder                  time.Duration
}

func newReplayCommand() *cobra.Command {
	var flags replayFlags
	cmd := &cobra.Command{
		Use:   "replay (--rules FILE | --limit LIMIT --by ATTR) INPUT…",
		Short: "Show what rules or a limit would have done to recorded traffic",
		Long: `Replay decides recorded traffic at the traffic's own time and sums up what
would have been allowed and denied.

An INPUT is an access log in common or combined format, or JSON lines such as
{"t_us":1431857103000001,"key":"a","cost":1}; - is standard input, and gzip is
unpacked. Several inputs are merged by time.

A LIMIT is 100/m (also s, h, d) or a JSON object. ATTR names whose use is
counted: ip, user, method, path, header:user-agent, or any member of a JSON
line, such as key.`,
		Example: `  stint replay --limit 10/m --by ip access.log
  stint replay --rules rules.yaml --json access.log access.log.1.gz
  stint replay --limit '{"algorithm":"sliding_window_log","limit":5,"window":"1h"}' --by key --decisions - events.jsonl`,
		Args: atLeastOne("an input", "access.log, or - for standard input"),
		RunE: flags.run,
	}
	flags.define(cmd)
	return cmd
}

func (f *replayFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.rules, "rules", "", "decide by this rule `FILE`, or a folder of them")
	flags.StringVar(&f.limit, "limit", "", "decide by this one `LIMIT`, such as 100/m")
	flags.StringVar(&f.by, "by", "", "the attribute `ATTR` that says whose use --limit counts")
	flags.StringVar(&f.store, "store", memoryStore, "the store that decides, as a `URL`; keys live apart from live ones, and are deleted at the end")
	flags.StringVar(&f.storePasswordFile, "store-password-file", os.Getenv("STINT_STORE_PASSWORD_FILE"), "`FILE` with the password of the store")
	flags.StringVar(&f.format, "format", "auto", "how lines are written: auto, combined, common or jsonl")
	flags.StringVar(&f.decisions, "decisions", "", "write one JSON line a decision to `FILE`; - is standard output")
	flags.BoolVar(&f.json, "json", false, "write the summary as JSON")
	flags.DurationVar(&f.reorder, "reorder", replay.DefaultReorder, "mend disorder of time up to this; 0 keeps the order of each file")
}

func (f *replayFlags) run(cmd *cobra.Command, args []string) error {
	options, err := f.options(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	inputs, err := openInputs(args, cmd.InOrStdin())
	if err != nil {
		return err
	}
	defer inputs.close()
	decisions, err := f.openDecisions(cmd.OutOrStdout(), inputs)
	if err != nil {
		return err
	}
	options.Decisions = decisions.Writer
	store, ctx, err := f.openStore(cmd.Context(), &options, cmd.ErrOrStderr())
	if err != nil {
		return errors.Join(err, decisions.close())
	}
	progress := newProgressLine(cmd.ErrOrStderr(), inputs.size)
	options.Progress = progress.show
	summary, err := replay.Run(ctx, options, inputs.named...)
	progress.clear()
	if ctx.Err() != nil {
		err = errors.New("replay: interrupted: the summary is of what was decided until then")
	}
	return errors.Join(err, store.end(ctx), decisions.close(), f.report(cmd, &summary))
}

// options reads what the flags ask for.
func (f *replayFlags) options(warnings io.Writer) (o replay.Options, err error) {
	if f.reorder < 0 {
		return o, usagef("--reorder: %v is below 0 (use 0 to keep the order of each file)", f.reorder)
	}
	o.Reorder = f.reorder
	if o.Format, err = replay.ParseFormat(f.format); err != nil {
		return o, usagef("--%w", err)
	}
	switch {
	case (f.rules == "") == (f.limit == ""):
		return o, usagef("replay: give either --rules FILE, or --limit LIMIT and --by ATTR")
	case f.rules != "" && f.by != "":
		return o, usagef("--by: belongs to --limit; rules say themselves what they count by (remove it)")
	case f.rules != "":
		o.Rules, err = loadReplayRules(f.rules, warnings)
		return o, err
	case f.by == "":
		return o, usagef("--by: is missing beside --limit (name whose use is counted, such as --by ip or --by key)")
	}
	o.By = f.by
	if o.Limit, err = rule.ParseLimit([]byte(f.limit)); err != nil {
		return o, usagef("--limit: %w", err)
	}
	return o, nil
}

func loadReplayRules(path string, warnings io.Writer) (*rule.Set, error) {
	set, err := rule.Load(path)
	if err != nil {
		return nil, usagef("%w", err)
	}
	for _, w := range set.Warnings() {
		fmt.Fprintf(warnings, "warning: %v\n", w)
	}
	return set, nil
}

// report writes the summary to standard output, or to standard error when
// decisions are there, and shows the first bad lines.
func (f *replayFlags) report(cmd *cobra.Command, summary *replay.Summary) error {
	for _, bad := range summary.UnreadableLines {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s:%d: %s\n", bad.Input, bad.Line, bad.Reason)
	}
	if more := summary.Unreadable - int64(len(summary.UnreadableLines)); more > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "and %d more lines that cannot be read\n", more)
	}
	out := cmd.OutOrStdout()
	if f.decisions == "-" {
		out = cmd.ErrOrStderr()
	}
	if !f.json {
		return summary.WriteTable(out)
	}
	text := json.NewEncoder(out)
	text.SetIndent("", "  ")
	return text.Encode(summary)
}
