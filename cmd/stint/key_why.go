package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
	"github.com/stintdev/stint/cmd/stint/internal/denials"
)

// whyFlags are the flags of stint key why.
type whyFlags struct {
	keyFlags

	most    int
	servers serversFlags
}

func newWhyCommand() *cobra.Command {
	f := &whyFlags{}
	c := &cobra.Command{
		Use:   "why [KEY]",
		Short: "Show why a key was denied, and what it has left",
		Long: `Show the last denials of a key, the newest last, with the numbers at that time: the
limit, what remained, how long to wait, and whether a list, a penalty or a failing
store decided. Below that the command shows what the key has left now, as stint key
peek does. It charges nothing.

A KEY alone also covers rules by another single attribute, such as an address, and
limits that callers bring. Each server knows its own denials. Give --server several
addresses, separated by commas, to see those of all of them; what the key has left is
that of the first server.`,
		Example: "  stint key why sk_live_42\n  stint key why 203.0.113.9\n  stint key why --rule pairs --attribute api_key=sk_live_42 --attribute ip=203.0.113.9",
		Args:    arguments(0, 1, "at most one key", "sk_live_42"),
	}
	c.Flags().IntVar(&f.most, "last", 20, "show at most `N` denials, the newest")
	f.define(c, false)
	c.Flags().Lookup("server").Usage = serversUsage
	run := f.running(f.why)
	c.RunE = func(c *cobra.Command, args []string) error {
		if f.most < 1 || f.most > denials.MaxLimit {
			return usagef("last: %d is not a number from 1 to %d", f.most, denials.MaxLimit)
		}
		f.servers.server = f.server
		if err := f.servers.split(); err != nil {
			return err
		}
		f.server = f.servers.server
		return run(c, args)
	}
	return c
}

func (f *whyFlags) why(ctx context.Context, args []string) error {
	body, err := f.body(args, 0)
	if err != nil {
		return err
	}
	q := adminclient.Request{Method: http.MethodPost, Path: "/v1/why", Body: body, Query: url.Values{"limit": {strconv.Itoa(f.most)}}}
	f.servers.client = f.client
	clients, err := f.servers.clients()
	if err != nil {
		return err
	}
	if len(clients) == 1 {
		var w adminclient.Why
		return f.ask(ctx, q, &w, func(out io.Writer) error { return printWhy(out, &w) })
	}
	answers, failures := askAll(ctx, clients, serverTime, "denials", func(ctx context.Context, c *adminclient.Client, w *adminclient.Why) error {
		_, err := c.Into(ctx, q, w)
		return err
	})
	merged, pages := adminclient.Why{Unanswered: unanswered(clients, failures)}, []adminclient.Denied{}
	err = errors.Join(failures...)
	if len(merged.Unanswered) == len(clients) {
		return err
	}
	for i := range answers {
		if failures[i] == nil {
			pages = append(pages, adminclient.Denied{Page: denials.Page{Items: answers[i].Denials, LeftOut: answers[i].LeftOut}})
			if merged.Key == "" {
				merged.States, merged.Hint = answers[i].States, answers[i].Hint
			}
		}
	}
	all := mergeDenied(pages, f.most)
	merged.Denials, merged.LeftOut = all.Items, all.LeftOut
	encoded, encoding := json.Marshal(&merged)
	if encoding != nil {
		return encoding
	}
	return errors.Join(f.print(adminclient.Answer{Body: encoded}, func(out io.Writer) error { return printWhy(out, &merged) }), err)
}

// printWhy prints the denials of a key, and below them its state.
func printWhy(out io.Writer, w *adminclient.Why) error {
	page := adminclient.Denied{Page: denials.Page{Items: w.Denials, LeftOut: w.LeftOut}}
	if err := printDenied(out, &page, "--last"); err != nil {
		return err
	}
	l := &printer{w: out}
	l.printf("\nnow:\n")
	if nothing := len(w.Limits) == 0 && len(w.Lists) == 0; nothing && w.Canary == nil {
		hint := cmp.Or(w.Hint, "rule: no rule counts this key alone (give the attributes of one)")
		l.printf("%s\nwrite them as --attribute NAME=VALUE, or give --limit for a limit that callers bring\n", cell(hint))
		return l.err
	}
	if l.err != nil {
		return l.err
	}
	return printStates(out, &w.States)
}
