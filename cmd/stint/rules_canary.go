package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
)

// canaryFlags are the flags of stint rules apply that try rules on a share of the callers.
type canaryFlags struct{ share, soak, abortAbove string }

func (f *canaryFlags) define(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.share, "canary", "", "give the new rules to this `SHARE` of the callers, 0.01% to 99%")
	flags.StringVar(&f.soak, "soak", "", "promote the canary after this `DURATION`, 1s to 720h (default: only stint rules promote does)")
	flags.StringVar(&f.abortAbove, "abort-above", "", "abort the canary when its `SHARE` of denied requests is greater than the others' by more than this (default 5%)")
	mustComplete(c, "canary", cobra.FixedCompletions([]cobra.Completion{"1%", "5%", "25%"}, cobra.ShellCompDirectiveNoFileComp))
	mustComplete(c, "soak", cobra.FixedCompletions([]cobra.Completion{"10m", "1h", "24h"}, cobra.ShellCompDirectiveNoFileComp))
	mustComplete(c, "abort-above", cobra.FixedCompletions([]cobra.Completion{"1%", "2%", "5%"}, cobra.ShellCompDirectiveNoFileComp))
}

// query returns the parameters of the request; nil: the rules are for all callers. The server
// checks the values.
func (f *canaryFlags) query() (url.Values, error) {
	if f.share == "" {
		if f.soak != "" || f.abortAbove != "" {
			return nil, usagef("soak and abort-above: are for a canary (give --canary too, such as --canary 5%%)")
		}
		return nil, nil //nolint:nilnil // there is no canary
	}
	q := url.Values{"canary": {f.share}}
	for name, value := range map[string]string{"soak": f.soak, "abort_above": f.abortAbove} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q, nil
}

// canary prints how a canary tries its rules.
func (l *printer) canary(p *adminclient.CanaryPlan) {
	l.printf("canary: %s of the callers by %s get these rules, and the others keep version %d\n", percent(p.Share), cell(p.By), p.Control)
	if len(p.RulesKept) > 0 {
		l.printf("not tried before the promotion, because callers of both sides share the counts: the limits of %s\n", several(p.RulesKept))
		l.limits(&adminclient.Diff{Limits: p.KeptLimits})
	}
	l.ends(&p.CanaryOptions)
}

// ends prints what ends a canary.
func (l *printer) ends(o *adminclient.CanaryOptions) {
	l.printf("it is aborted when it denies more than %s above the others, or has errors\n", percent(o.AbortAbove))
	if o.Soak == "" {
		l.printf("it is promoted by hand: stint rules promote\n")
		return
	}
	l.printf("it is promoted after %s, or by hand: stint rules promote\n", cell(o.Soak))
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', -1, 32) + " %" }

// canaryPath is the endpoint of the canary.
const canaryPath = "/v1/canary"

func newCanaryCommand() *cobra.Command {
	f := &adminFlags{}
	c := &cobra.Command{
		Use:   "canary",
		Short: "Show the canary that is on, and compare its requests with the others",
		Long: `Show the canary that is on: which share of the callers has which version of the
rules, what ends it, and how many requests of its callers and of the others were
denied or had errors, on all nodes since each node runs it. Nodes announce their
counts every 5 seconds.`,
		Example: "  stint rules canary\n  stint rules canary --json",
		Args:    noArguments,
		RunE: f.running(func(ctx context.Context, _ []string) error {
			var on adminclient.Canary
			return f.ask(ctx, adminclient.Request{Method: http.MethodGet, Path: canaryPath}, &on, func(w io.Writer) error { return printCanary(w, &on) })
		}),
	}
	f.define(c)
	f.defineSource(c)
	return c
}

func printCanary(w io.Writer, on *adminclient.Canary) error {
	l := &printer{w: w}
	if !on.On {
		l.printf("no canary is running\n")
		return l.err
	}
	l.printf("canary: version %d for %s of the callers by %s, beside version %d, since %s by %s\n",
		on.Version, percent(on.Share), cell(on.By), on.Control, timestamp(on.Since), cell(on.Author))
	if on.Comment != "" {
		l.printf("reason: %s\n", cell(on.Comment))
	}
	if len(on.RulesKept) > 0 {
		l.printf("not tried before the promotion: the limits of %s\n", several(on.RulesKept))
	}
	l.ends(&on.CanaryOptions)
	if least := uint64(max(on.Least, 0)); on.Requests.Control.Decided() < least || on.Requests.Canary.Decided() < least {
		l.printf("too few requests to judge: each side needs %d\n", least)
	}
	l.printf("%s:\n", counted(on.Nodes, "node"))
	if l.err != nil {
		return l.err
	}
	t := newTable(w, "CALLERS", "REQUESTS", "DENIED", "ERRORS")
	for _, side := range []struct {
		name string
		c    ruleset.Counts
	}{{"canary", on.Requests.Canary}, {"others", on.Requests.Control}} {
		t.row(side.name, side.c.Requests, ofAll(side.c.Denied, side.c.DeniedShare()), ofAll(side.c.Errors, side.c.ErrorShare()))
	}
	return t.Flush()
}

func ofAll(n uint64, share float64) string { return fmt.Sprintf("%d (%.2f %%)", n, 100*share) }

// endFlags are the flags of the commands that end a canary.
type endFlags struct {
	adminFlags

	comment string
}

func newPromoteCommand() *cobra.Command {
	return newEndCommand("promote", "Publish the rules of the canary for all callers",
		"Publish the rules of the canary for all callers, as a new version.")
}

func newAbortCommand() *cobra.Command {
	return newEndCommand("abort", "End the canary, and publish the old rules for all callers",
		"End the canary, and publish the old rules for all callers, as a new version.")
}

func newEndCommand(verb, short, long string) *cobra.Command {
	f := &endFlags{}
	c := &cobra.Command{
		Use:   verb + " [VERSION]",
		Short: short,
		Long: long + ` VERSION is
the version with the canary, as "stint rules canary" shows it: the command fails if
another one is on by now. Without it the command ends whichever canary is on.`,
		Example: fmt.Sprintf("  stint rules %s\n  stint rules %s --comment \"seen enough\" 13", verb, verb),
		Args:    arguments(0, 1, "at most one version", "13"),
		RunE:    f.running(func(ctx context.Context, args []string) error { return f.end(ctx, verb, args) }),
	}
	c.Flags().StringVar(&f.comment, "comment", "", "reason for the end, for the history")
	f.define(c)
	f.defineSource(c)
	c.ValidArgsFunction = f.completeVersions(1)
	return c
}

func (f *endFlags) end(ctx context.Context, verb string, args []string) error {
	if err := checkComment("comment", f.comment); err != nil {
		return err
	}
	q := adminclient.Request{Method: http.MethodPost, Path: canaryPath + "/" + verb, Comment: f.comment, Change: true}
	if len(args) > 0 {
		n, err := versionOf(args[0])
		if err != nil {
			return err
		}
		q.Query = url.Values{"version": {strconv.FormatUint(n, 10)}}
	}
	o := &adminclient.Outcome{}
	a, err := f.client.Into(ctx, q, o)
	if err != nil {
		return err
	}
	return f.print(a, func(w io.Writer) error { return printOutcome(w, o) })
}
