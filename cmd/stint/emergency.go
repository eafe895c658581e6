package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
)

// emergencyPath is the endpoint of the emergency.
const emergencyPath = "/v1/emergency"

func newEmergencyCommand() *cobra.Command {
	return newGroupCommand("emergency", "Put one limit on every request for a short time",
		"  stint emergency on --limit 10/s --by ip --for 10m --reason \"login flood\"\n  stint emergency status\n  stint emergency off",
		newEmergencyOnCommand(), newEmergencyOffCommand(), newEmergencyStatusCommand())
}

// emergencyFlags are the flags of the commands of the emergency.
type emergencyFlags struct {
	adminFlags

	limit, by, duration, reason string
}

// defineReason adds the flags of a command that switches.
func (f *emergencyFlags) defineReason(c *cobra.Command) {
	c.Flags().StringVar(&f.reason, "reason", "", "reason for the audit log, shown by the status")
	f.define(c)
}

func newEmergencyOnCommand() *cobra.Command {
	f := &emergencyFlags{}
	c := &cobra.Command{
		Use:   "on --limit LIMIT",
		Short: "Switch the emergency on, or replace the one that is on",
		Long: `Limit every request that Stint decides, in addition to the rules, until the time of
--for is over or "stint emergency off" ends it. The allow and deny lists come first.
Each value of the attribute --by has its own count; requests without the attribute
share one. Requests that bring only a key, such as those of /v1/take, are counted by
the key.

With rules in Redis or PostgreSQL every node obeys within 2 seconds. With rules in
files, or while the database does not answer, only the node that is called obeys:
call the command once for each node, with --server. The limit holds also while the
store fails: each node then applies its share of it.`,
		Example: `  stint emergency on --limit 10/s --by ip --for 10m
  stint emergency on --limit 100/m --by api_key --for 1h --reason "ticket 81"
  stint emergency on --limit 500/s --by host --for 5m --server https://limits.example.com:6070`,
		Args: noArguments,
		RunE: f.running(f.on),
	}
	flags := c.Flags()
	flags.StringVar(&f.limit, "limit", "", "what each value may use, a number of requests by s, m, h or d: 10/s (required)")
	flags.StringVar(&f.by, "by", "ip", "the attribute that is counted by: ip, api_key, host, path, header:NAME or another that the rules read")
	flags.StringVar(&f.duration, "for", "10m", "how long, 1s to 24h")
	f.defineReason(c)
	mustComplete(c, "by", cobra.FixedCompletions([]cobra.Completion{"ip", "api_key", "host", "path", "method"}, cobra.ShellCompDirectiveNoFileComp))
	mustComplete(c, "limit", cobra.FixedCompletions([]cobra.Completion{"1/s", "10/s", "100/m"}, cobra.ShellCompDirectiveNoFileComp))
	mustComplete(c, "for", cobra.FixedCompletions([]cobra.Completion{"5m", "10m", "1h"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func newEmergencyOffCommand() *cobra.Command {
	f := &emergencyFlags{}
	c := &cobra.Command{
		Use:   "off",
		Short: "Switch the emergency off",
		Long: `Switch the emergency off. It takes effect on the same nodes as "stint emergency
on": all that share their rules, or the one that is called.`,
		Example: "  stint emergency off\n  stint emergency off --reason \"the flood is over\"",
		Args:    noArguments,
		RunE: f.running(func(ctx context.Context, _ []string) error {
			return f.change(ctx, adminclient.Request{Method: http.MethodDelete, Path: emergencyPath}, "off")
		}),
	}
	f.defineReason(c)
	return c
}

func newEmergencyStatusCommand() *cobra.Command {
	f := &emergencyFlags{}
	c := &cobra.Command{
		Use:     "status",
		Short:   "Show the emergency, and which nodes obey it",
		Long:    "Show whether an emergency is on: its limit, who switched it on and why, when it\nends, and which nodes obey it.",
		Example: "  stint emergency status\n  stint emergency status --json",
		Args:    noArguments,
		RunE: f.running(func(ctx context.Context, _ []string) error {
			var e adminclient.Emergency
			return f.ask(ctx, adminclient.Request{Method: http.MethodGet, Path: emergencyPath}, &e, func(w io.Writer) error {
				return printEmergency(w, &e, "")
			})
		}),
	}
	f.define(c)
	return c
}

func (f *emergencyFlags) on(ctx context.Context, _ []string) error {
	if f.limit == "" {
		return usagef("emergency on: --limit is missing (give it as 10/s)")
	}
	body, err := json.Marshal(map[string]string{"limit": f.limit, "by": f.by, "for": f.duration})
	if err != nil {
		return err
	}
	again := fmt.Sprintf("on --limit %s --by %s --for %s", f.limit, f.by, f.duration)
	return f.change(ctx, adminclient.Request{Method: http.MethodPut, Path: emergencyPath, Body: body}, again)
}

// change switches, and prints the new state. again is the command as it is to be repeated for
// other nodes.
func (f *emergencyFlags) change(ctx context.Context, q adminclient.Request, again string) error {
	if err := checkComment("reason", f.reason); err != nil {
		return err
	}
	q.Comment, q.Change = f.reason, true
	var e adminclient.Emergency
	return f.ask(ctx, q, &e, func(w io.Writer) error { return printEmergency(w, &e, again) })
}

// printEmergency prints the state. again is empty for the status. After a switching it is the
// command to repeat for other nodes. Nodes that do not obey yet then will within moments, so
// they are not listed.
func printEmergency(w io.Writer, e *adminclient.Emergency, again string) error {
	l, changed := &printer{w: w}, again != ""
	l.emergencyState(e)
	if old := e.Replaced; changed && old != nil && e.On {
		l.printf("it replaces %s by %s, which %s switched on\n", cell(old.Limit), cell(old.By), cell(old.Author))
	}
	l.reach(e, again)
	if changed || l.err != nil || len(e.Nodes) == 0 || !e.On && !slices.ContainsFunc(e.Nodes, disobeys) {
		return l.err
	}
	t := newTable(w, "NODE", "ADDRESS", "EMERGENCY")
	for _, n := range e.Nodes {
		state := "obeys"
		switch {
		case !n.Obeys && e.On:
			state = "DOES NOT OBEY"
		case !n.Obeys:
			state = "ANOTHER EMERGENCY IS ON"
		case !e.On:
			state = "off"
		}
		t.row(cell(n.ID), cell(n.Address), state)
	}
	return t.Flush()
}

func disobeys(n adminclient.EmergencyNode) bool { return !n.Obeys }

// reach prints which nodes have the state, and how to reach the others.
func (l *printer) reach(e *adminclient.Emergency, again string) {
	if e.Shared {
		if again != "" {
			l.printf("every node that shares these rules obeys within 2 seconds (see stint emergency status)\n")
		}
		return
	}
	why := "the rules are in files or built in, which cannot tell other nodes"
	switch {
	case e.SourceError != "":
		why = e.SourceError
	case e.Shareable:
		l.printf("this is the state of this node alone: the source of the rules did not take it when it was switched\n" +
			"run stint emergency on or off once more: every node that shares these rules obeys that\n")
		return
	case again == "" && !e.On:
		return
	}
	what := "ONLY THIS NODE is switched"
	if again == "" {
		what, again = "this is the state of this node alone", "status"
	}
	l.printf("%s: %s\n", what, cell(why))
	l.printf("run the command for each other node, with the URL of its --admin listener:\n"+
		"  for url in http://node-2:6070 http://node-3:6070; do stint emergency %s --server $url; done\n", cell(again))
}

// emergencyState prints what is in force.
func (l *printer) emergencyState(e *adminclient.Emergency) {
	if !e.On {
		l.printf("emergency: off\n")
		return
	}
	l.printf("emergency: ON: %s by %s until %s (%v left)\n", cell(e.Limit), cell(e.By), timestamp(e.Until), max(0, time.Until(e.Until)).Round(time.Second))
	l.printf("switched on by %s at %s", cell(e.Author), timestamp(e.Since))
	if e.Reason != "" {
		l.printf(": %s", cell(e.Reason))
	}
	l.printf("\n")
}
