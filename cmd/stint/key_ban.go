package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
)

// banFlags are the flags of stint key ban and stint key unban.
type banFlags struct {
	adminFlags

	rule, duration, until, reason string
}

func newBanCommand() *cobra.Command {
	f := &banFlags{}
	c := &cobra.Command{
		Use:   "ban KEY",
		Short: "Put a key on the deny list, permanently or until a time",
		Long: `Put an API key, a pattern of keys, an address or a network on the deny list,
permanently or until a time. The command publishes a new version of the rules,
which takes effect on every node. A KEY of - is read from standard input.`,
		Example: "  stint key ban --for 1h --reason \"tried passwords\" sk_live_42\n  stint key ban 203.0.113.0/24\n  stint key ban --rule orders --until 2026-12-01T00:00:00Z 'sk_trial_*'",
		Args:    arguments(1, 1, "a key", "sk_live_42"),
		RunE: f.running(func(ctx context.Context, args []string) error {
			return f.change(ctx, "/v1/ban", args[0], f.printBan)
		}),
	}
	flags := c.Flags()
	flags.StringVar(&f.duration, "for", "", "how long, such as 15m, 12h or 30d (default permanently)")
	flags.StringVar(&f.until, "until", "", "until this `TIME`, such as 2026-12-01T00:00:00Z")
	flags.StringVar(&f.reason, "reason", "", "reason for the ban, kept in the rules")
	f.define(c)
	return c
}

func newUnbanCommand() *cobra.Command {
	f := &banFlags{}
	c := &cobra.Command{
		Use:   "unban KEY",
		Short: "Take a key off the deny list, and end its penalties",
		Long: `Take a key off the deny list, whether stint key ban or a rule file put it there,
and end its penalties. The command removes only the entry that equals KEY; another
entry that matches the key, such as a pattern, stays. A KEY of - is read from
standard input.`,
		Example: "  stint key unban sk_live_42\n  stint key unban --rule orders 'sk_trial_*'",
		Args:    arguments(1, 1, "a key", "sk_live_42"),
		RunE: f.running(func(ctx context.Context, args []string) error {
			return f.change(ctx, "/v1/unban", args[0], printUnban)
		}),
	}
	f.define(c)
	return c
}

func (f *banFlags) define(c *cobra.Command) {
	c.Flags().StringVar(&f.rule, "rule", "", "the deny list of the rule of this `ID` (default that of all rules)")
	f.adminFlags.define(c)
	mustComplete(c, "rule", f.completeRules)
}

// change changes a list and prints the result. show prints what happened to the
// key, which it gets shortened.
func (f *banFlags) change(ctx context.Context, path, arg string, show func(l *printer, key string, o *adminclient.Outcome)) error {
	key, err := f.key(arg)
	if err == nil {
		err = checkComment("reason", f.reason)
	}
	if err == nil && f.duration != "" && f.until != "" {
		err = usagef("until: and --for are both given (give one of them)")
	}
	if err != nil {
		return err
	}
	body := map[string]string{"key": key}
	for name, value := range map[string]string{"rule": f.rule, "for": f.duration, "until": f.until, "reason": f.reason} {
		if value != "" {
			body[name] = value
		}
	}
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	var o adminclient.Outcome
	q := adminclient.Request{Method: http.MethodPost, Path: path, Body: data, Comment: f.reason, Change: true}
	return f.ask(ctx, q, &o, func(w io.Writer) error {
		l := &printer{w: w}
		show(l, cell(masked(key)), &o)
		if l.err != nil || o.Penalties > 0 && !o.Changed {
			return l.err
		}
		return printOutcome(w, &o)
	})
}

func (f *banFlags) printBan(l *printer, key string, _ *adminclient.Outcome) {
	l.printf("%s is banned", key)
	if f.duration != "" {
		l.printf(" for %s", cell(f.duration))
	}
	if f.until != "" {
		l.printf(" until %s", cell(f.until))
	}
	l.printf("\n")
}

// printUnban does not claim that the key is allowed now: another entry, such as
// a pattern, may still match it.
func printUnban(l *printer, key string, o *adminclient.Outcome) {
	if o.Changed {
		l.printf("%s is taken off the deny list\n", key)
	}
	switch n := o.Penalties; {
	case n == 1:
		l.printf("1 penalty of %s is ended\n", key)
	case n > 1:
		l.printf("%d penalties of %s are ended\n", n, key)
	}
}
