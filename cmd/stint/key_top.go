package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
	"github.com/stintdev/stint/cmd/stint/internal/topkeys"
)

const (
	// allOfTop is the greatest limit that the API takes. A merged answer needs all items of
	// each server.
	allOfTop = 3000
)

// topFlags are the flags of stint key top.
type topFlags struct {
	serversFlags

	by, rule, window string
	limit            int
	table            func(io.Writer, *adminclient.Top) error
	whole            bool // the table needs all keys, not only the first ones
}

func newTopCommand() *cobra.Command {
	f := &topFlags{table: printTop}
	c := &cobra.Command{
		Use:   "top",
		Short: "Show the keys that are denied or allowed most often",
		Long: `Show the keys that were denied or allowed most often in the last minute or hour,
the busiest first. A key has at least COUNT - ERROR and at most COUNT requests.
Keys are shortened. HASH tells keys with the same beginning apart: stint denied --hash
shows the denials of one.

Each server counts its own requests. Give --server several addresses, separated
by commas, to see the sum over these servers. This needs the role admin on each of
them, and the command fails if one does not answer, after the sum of the others.`,
		Example: "  stint key top\n  stint key top --by allowed --rule orders --window 1h --limit 50\n  stint key top --server http://10.0.0.1:6070,http://10.0.0.2:6070",
		Args:    noArguments,
	}
	c.Flags().StringVar(&f.by, "by", "denied", "count `denied|allowed|shadow` requests; shadow: those that rules in shadow mode would deny")
	mustComplete(c, "by", cobra.FixedCompletions([]cobra.Completion{"denied", "allowed", "shadow"}, cobra.ShellCompDirectiveNoFileComp))
	f.define(c, "only keys of the rule of this `ID`, or (take) for limits that callers bring (default all)")
	return c
}

// define defines the flags beside --by, and what the command runs.
func (f *topFlags) define(c *cobra.Command, rule string) {
	flags := c.Flags()
	flags.StringVar(&f.rule, "rule", "", rule)
	flags.StringVar(&f.window, "window", "1m", "the last minute or hour, as `1m|1h`")
	flags.IntVar(&f.limit, "limit", 20, "show at most `N` keys")
	f.serversFlags.define(c)
	mustComplete(c, "rule", f.completeRules)
	mustComplete(c, "window", cobra.FixedCompletions([]cobra.Completion{"1m", "1h"}, cobra.ShellCompDirectiveNoFileComp))
	run := f.running(func(ctx context.Context, _ []string) error { return f.top(ctx) })
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		return run(c, args)
	}
}

// check refuses wrong flags, and splits the addresses.
func (f *topFlags) check() error {
	switch {
	case !slices.Contains([]string{"denied", "allowed", "shadow"}, f.by):
		return usagef("by: %.40q is not known (use denied, allowed or shadow)", f.by)
	case f.window != "1m" && f.window != "1h":
		return usagef("window: %.40q is not known (use 1m or 1h)", f.window)
	case f.limit < 1 || f.limit > allOfTop:
		return usagef("limit: %d is not a number from 1 to %d", f.limit, allOfTop)
	}
	return f.split()
}

func (f *topFlags) top(ctx context.Context) error {
	q := adminclient.Request{Method: http.MethodGet, Path: "/v1/top", Query: url.Values{"by": {f.by}, "window": {f.window}}}
	if f.rule != "" {
		q.Query.Set("rule", f.rule)
	}
	var top adminclient.Top
	most := f.limit
	if f.whole && !f.json {
		most = allOfTop
	}
	if len(f.servers) == 1 {
		q.Query.Set("limit", strconv.Itoa(most))
		return f.ask(ctx, q, &top, func(w io.Writer) error { return f.table(w, &top) })
	}
	q.Query.Set("limit", strconv.Itoa(allOfTop))
	top, err := f.merged(ctx, q, most)
	if err != nil && len(top.Unanswered) == len(f.servers) {
		return err
	}
	body, encoding := json.Marshal(&top)
	if encoding != nil {
		return encoding
	}
	return errors.Join(f.print(adminclient.Answer{Body: body}, func(w io.Writer) error { return f.table(w, &top) }), err)
}

// merged asks all servers at the same time, and merges their answers to the given number of items. The
// error joins those of the servers that did not answer.
func (f *topFlags) merged(ctx context.Context, q adminclient.Request, most int) (merged adminclient.Top, err error) {
	clients, err := f.clients()
	if err != nil {
		return merged, err
	}
	answers, failures := askAll(ctx, clients, serverTime, "counts", func(ctx context.Context, c *adminclient.Client, top *adminclient.Top) error {
		return askTop(ctx, c, q, top)
	})
	failures = withoutNoRule(failures)
	var parts []topkeys.Top
	for i, failure := range failures {
		if failure == nil && answers[i].Items != nil { // nil: the server does not have the rule
			parts = append(parts, answers[i].Top)
		}
	}
	merged.Unanswered = unanswered(clients, failures)
	merged.Top = topkeys.Merge(parts)
	merged.Cut(f.rule, most)
	return merged, errors.Join(failures...)
}

// askTop asks one of several servers, whose answers are merged by the ids of the keys.
func askTop(ctx context.Context, c *adminclient.Client, q adminclient.Request, top *adminclient.Top) error {
	_, err := c.Into(ctx, q, top)
	if err == nil && slices.ContainsFunc(top.Items, func(i topkeys.Item) bool { return i.ID == 0 }) {
		return errors.New("its keys have no ids, because the token is below the role admin (give a token of that role, or ask one server at a time)")
	}
	return err
}

func printTop(out io.Writer, top *adminclient.Top) error {
	t := newTable(out, "RULE", "KEY", "COUNT", "ERROR", "HASH")
	for _, item := range top.Items {
		t.row(cell(item.Rule), cell(item.Key), item.Count, item.Error, cell(item.Hash))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	l := &printer{w: out}
	l.printf("since %s; any other key has at most %d\n", timestamp(top.Since), top.Floor)
	return l.err
}
