package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
	"github.com/stintdev/stint/rule"
)

func newKeyCommand() *cobra.Command {
	return newGroupCommand("key", "Show, reset, refund or ban a key, and show the busiest and why one was denied",
		"  stint key peek sk_live_42\n  stint key ban --for 1h 203.0.113.9",
		newPeekCommand(), newResetCommand(), newGrantCommand(), newBanCommand(), newUnbanCommand(), newTopCommand(), newWhyCommand())
}

// keyHelp describes how the commands of keyFlags select a state.
const keyHelp = `

KEY is a value that rules count by, such as an API key. A KEY of - is read from
standard input, which keeps it out of the list of processes. --rule selects one
rule; by default the command covers every rule that counts by API key and, if KEY is
an address, every rule that counts by address. For a rule that counts by another
attribute, or by several, use --attribute instead of KEY.
Use --limit for a key whose limit the caller sends to /v1/take.`

// keyFlags select the states of a key.
type keyFlags struct {
	adminFlags

	rule, limit, comment string
	attributes           []string
}

func (f *keyFlags) define(c *cobra.Command, changes bool) {
	flags := c.Flags()
	flags.StringVar(&f.rule, "rule", "", "only the rule of this `ID` (default every rule that counts the key)")
	flags.StringVar(&f.limit, "limit", "", "the `LIMIT` that the caller sends to /v1/take, such as 100/m")
	flags.StringArrayVarP(&f.attributes, "attribute", "a", nil, "an attribute as `NAME=VALUE`, instead of KEY; may be repeated")
	if changes {
		flags.StringVar(&f.comment, "comment", "", "reason for the change, for the audit log")
	}
	c.Long += keyHelp
	f.adminFlags.define(c)
	mustComplete(c, "rule", f.completeRules)
	mustComplete(c, "attribute", completeAttributes)
}

// peekPath is the endpoint that reads states. The others change them.
const peekPath = "/v1/peek"

func newPeekCommand() *cobra.Command {
	return newStateCommand(peekPath, &cobra.Command{
		Use:     "peek [KEY]",
		Short:   "Show what a key has left, charging nothing",
		Long:    "Show what a key has left of each limit that counts it, charging nothing, and\nwhether it is on the deny or the allow list.",
		Example: "  stint key peek sk_live_42\n  stint key peek --rule logins --attribute ip=203.0.113.9\n  stint key peek --limit 100/m user:42 --json",
	})
}

func newResetCommand() *cobra.Command {
	return newStateCommand("/v1/reset", &cobra.Command{
		Use:     "reset [KEY]",
		Short:   "Forget what a key has used",
		Long:    "Forget what a key has used of each limit that counts it, and show what it has now.",
		Example: "  stint key reset sk_live_42\n  stint key reset --rule orders --comment \"ticket 81\" sk_live_42",
	})
}

func newStateCommand(path string, c *cobra.Command) *cobra.Command {
	f := &keyFlags{}
	c.Args = arguments(0, 1, "at most one key", "sk_live_42")
	c.RunE = f.running(func(ctx context.Context, args []string) error { return f.states(ctx, path, args, 0) })
	f.define(c, path != peekPath)
	return c
}

func newGrantCommand() *cobra.Command {
	f := &keyFlags{}
	c := &cobra.Command{
		Use:   "grant [KEY] UNITS",
		Short: "Refund units to a key, as if they had not been used",
		Long: `Refund units to a key, as if they had not been used. A refund never exceeds the
full allowance; to give a key a greater allowance, write an override.`,
		Example: "  stint key grant --rule orders sk_live_42 50\n  stint key grant --rule logins --attribute ip=203.0.113.9 5",
		Args:    arguments(1, 2, "a key and a number of units", "sk_live_42 50"),
		RunE: f.running(func(ctx context.Context, args []string) error {
			last := len(args) - 1
			units, err := strconv.ParseInt(args[last], 10, 64)
			if err != nil || units < 1 || units > stint.MaxCost {
				return usagef("%.40q is not a number of units (give a whole number from 1 to %d)", args[last], stint.MaxCost)
			}
			return f.states(ctx, "/v1/grant", args[:last], units)
		}),
	}
	f.define(c, true)
	return c
}

// states calls an endpoint that answers with states, and prints them.
func (f *keyFlags) states(ctx context.Context, path string, args []string, units int64) error {
	body, err := f.body(args, units)
	if err == nil {
		err = checkComment("comment", f.comment)
	}
	if err != nil {
		return err
	}
	var s adminclient.States
	q := adminclient.Request{Method: http.MethodPost, Path: path, Body: body, Comment: f.comment, Change: path != peekPath}
	return f.ask(ctx, q, &s, func(w io.Writer) error { return printStates(w, &s) })
}

// body returns the body of a request about a key.
func (f *keyFlags) body(args []string, units int64) ([]byte, error) {
	body := map[string]any{}
	switch {
	case len(args) == 0 && len(f.attributes) == 0:
		return nil, usagef("key: is missing (give one, such as sk_live_42, or --attribute ip=203.0.113.9)")
	case len(args) > 0 && len(f.attributes) > 0:
		return nil, usagef("key: is given, and so is --attribute (give one of them)")
	case f.limit != "" && (f.rule != "" || len(f.attributes) > 0):
		return nil, usagef("limit: --limit excludes --rule and --attribute (give --limit for a limit that callers bring, and the others for rules)")
	case len(args) > 0:
		key, err := f.key(args[0])
		if err != nil {
			return nil, err
		}
		body["key"] = key
	default:
		attributes, err := attributesOf(f.attributes)
		if err != nil {
			return nil, err
		}
		body["attributes"] = attributes
	}
	if units > 0 {
		body["units"] = units
	}
	switch {
	case f.limit != "":
		raw := limitJSON(f.limit)
		if _, err := rule.ParseLimit(raw); err != nil {
			return nil, usagef("limit: %w", err)
		}
		body["limit"] = raw
	case f.rule != "":
		body["rule"] = f.rule
	default:
		body["rule"] = "*"
	}
	return json.Marshal(body)
}

func attributesOf(list []string) (map[string]string, error) {
	all := map[string]string{}
	for _, text := range list {
		name, value, ok := strings.Cut(text, "=")
		if _, twice := all[name]; !ok || name == "" || twice || !utf8.ValidString(text) {
			return nil, usagef("attribute: %.40q is not an attribute, or given twice, or not UTF-8 (write it as ip=203.0.113.9)", text)
		}
		all[name] = value
	}
	return all, nil
}

// limitJSON returns a limit as JSON. The flag has a JSON object or the short
// form, such as 100/m.
func limitJSON(text string) json.RawMessage {
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		return json.RawMessage(text)
	}
	short, _ := json.Marshal(text) //nolint:errchkjson // a string cannot fail
	return short
}

// maxKeyLine bounds the read of a key on standard input, in bytes.
const maxKeyLine = 64 << 10

// byteOrderMark begins text files of some systems.
const byteOrderMark = "\ufeff"

// key returns the key of an argument, or the first line of standard input. It
// rejects invalid UTF-8, because JSON would change it to another key.
func (f *adminFlags) key(arg string) (string, error) {
	key := arg
	if arg == "-" {
		line, err := bufio.NewReader(io.LimitReader(f.in, maxKeyLine)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("key: %w", err)
		}
		key = strings.TrimRight(strings.TrimPrefix(line, byteOrderMark), "\r\n")
	}
	switch {
	case key == "" && arg == "-":
		return "", usagef("key: the first line of standard input is empty")
	case key == "":
		return "", usagef("key: is empty (give one, such as sk_live_42)")
	case !utf8.ValidString(key):
		return "", usagef("key: is not UTF-8, so it cannot be sent")
	}
	return key, nil
}

// printStates prints a line for each entry of a list that matches a key, and one for each
// limit.
func printStates(out io.Writer, s *adminclient.States) error {
	l := &printer{w: out}
	for _, e := range s.Lists {
		l.entry(&e)
	}
	if l.err != nil || len(s.Limits) == 0 && len(s.Lists) > 0 && s.Canary == nil {
		return l.err
	}
	if s.Canary != nil {
		return printSides(out, s)
	}
	t := newTable(out, "RULE", "LIMIT", "OF", "REMAINING", "RESET AFTER")
	for _, l := range s.Limits {
		t.row(cell(l.Rule), cell(l.Name), l.Limit, remaining(&l), milliseconds(l.ResetMS))
	}
	return t.Flush()
}

// printSides prints the limits of both sides of a canary, and which of them decides.
func printSides(out io.Writer, s *adminclient.States) error {
	t := newTable(out, "RULES", "RULE", "LIMIT", "OF", "REMAINING", "RESET AFTER")
	for _, side := range []struct {
		name   string
		limits []adminclient.State
	}{{"control", s.Limits}, {"canary", s.Canary.Limits}} {
		for _, l := range side.limits {
			t.row(side.name, cell(l.Rule), cell(l.Name), l.Limit, remaining(&l), milliseconds(l.ResetMS))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	l := &printer{w: out}
	l.side(s.Canary)
	return l.err
}

// side prints which side of a canary decides the requests of a key.
func (l *printer) side(c *adminclient.KeyCanary) {
	of := "of this key"
	if c.Keyless {
		of = "of this address that have no API key"
	}
	switch {
	case c.Decides == nil:
		l.printf("which rules decide is unknown, because the canary, version %d, splits callers by %s (give --attribute %s=VALUE, too)\n", c.Version, cell(c.By), cell(c.By))
	case *c.Decides:
		l.printf("the canary, version %d, decides the requests %s\n", c.Version, of)
	default:
		l.printf("the old rules decide the requests %s, and not the canary, version %d\n", of, c.Version)
	}
}

// entry prints an entry of a list, such as "on the deny list: 203.0.113.0/24, until …".
func (l *printer) entry(e *adminclient.Entry) {
	list := "allow (whitelist)"
	if e.Deny {
		list = "deny (blacklist)"
	}
	l.printf("on the %s list", list)
	if e.Rule != "" {
		l.printf(" of rule %s", cell(e.Rule))
	}
	l.printf(": %s", cell(masked(e.Match)))
	if !e.Until.IsZero() {
		l.printf(", until %s", timestamp(e.Until))
	}
	if e.Reason != "" {
		l.printf(" (%s)", cell(e.Reason))
	}
	l.printf("\n")
}

func remaining(l *adminclient.State) string {
	text := strconv.FormatInt(l.Remaining, 10)
	if l.Before != nil {
		text = fmt.Sprintf("%d (was %d)", l.Remaining, *l.Before)
	}
	if l.Listed != "" {
		text += " (on the " + cell(l.Listed) + " list)"
	}
	if l.Shadow {
		text += " (shadow: denies nothing)"
	}
	if l.Any {
		text += " (any: another limit of the rule may admit)"
	}
	if l.Degraded {
		text += degradedText
	}
	return text
}
