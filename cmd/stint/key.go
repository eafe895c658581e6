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
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
	"github.com/stintdev/stint/rule"
)

func newKeyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "key",
		Short:   "Look at one key, and change what it has left",
		Example: "  stint key peek sk_live_42\n  stint key ban --for 1h 203.0.113.9",
		Args:    subcommandOnly,
		RunE: func(c *cobra.Command, _ []string) error {
			return usagef("say what to do with a key (see %s --help)", c.CommandPath())
		},
	}
	c.AddCommand(newPeekCommand(), newResetCommand(), newGrantCommand(), newBanCommand(), newUnbanCommand())
	return c
}

// keyHelp says how the commands of keyFlags are told whose state is meant.
const keyHelp = `

KEY is whom the rules count by one attribute, such as an API key; - reads it
from standard input, where no list of processes shows it. --rule names one rule;
without it, it is every rule that counts by API key. Where a rule counts by
something else, or by several attributes, name them by --attribute in place of
KEY. --limit is for keys whose limit the caller brings to /v1/take.`

// keyFlags say whose state is meant.
type keyFlags struct {
	adminFlags

	rule, limit, comment string
	attributes           []string
}

func (f *keyFlags) define(c *cobra.Command, changes bool) {
	flags := c.Flags()
	flags.StringVar(&f.rule, "rule", "", "the rule of this `ID` (default every rule that counts the key)")
	flags.StringVar(&f.limit, "limit", "", "the `LIMIT` that the caller brings, such as 100/m")
	flags.StringArrayVarP(&f.attributes, "attribute", "a", nil, "whom, as `NAME=VALUE`, in place of KEY; may be repeated")
	if changes {
		flags.StringVar(&f.comment, "comment", "", "why, for the record")
	}
	c.Long += keyHelp
	f.adminFlags.define(c)
}

// peekPath is where states are looked at; what else is asked of them changes
// them.
const peekPath = "/v1/peek"

func newPeekCommand() *cobra.Command {
	f := &keyFlags{}
	c := &cobra.Command{
		Use:     "peek [KEY]",
		Short:   "Show what a key has left, using nothing",
		Long:    "Show what a key has left of each limit that counts it, using nothing, and whether\nit is on the deny or the allow list.",
		Example: "  stint key peek sk_live_42\n  stint key peek --rule logins --attribute ip=203.0.113.9\n  stint key peek --limit 100/m user:42 --json",
		Args:    atMostOne("a key", "sk_live_42"),
		RunE:    f.running(func(ctx context.Context, args []string) error { return f.states(ctx, peekPath, args, 0) }),
	}
	f.define(c, false)
	return c
}

func newResetCommand() *cobra.Command {
	f := &keyFlags{}
	c := &cobra.Command{
		Use:     "reset [KEY]",
		Short:   "Forget what a key has used",
		Long:    "Forget what a key has used of each limit that counts it, and show what it has now.",
		Example: "  stint key reset sk_live_42\n  stint key reset --rule orders --comment \"ticket 81\" sk_live_42",
		Args:    atMostOne("a key", "sk_live_42"),
		RunE:    f.running(func(ctx context.Context, args []string) error { return f.states(ctx, "/v1/reset", args, 0) }),
	}
	f.define(c, true)
	return c
}

func newGrantCommand() *cobra.Command {
	f := &keyFlags{}
	c := &cobra.Command{
		Use:   "grant [KEY] UNITS",
		Short: "Give units back to a key, as if they had not been used",
		Long: `Give units back to a key, as if they had not been used. Nobody has more than a
full allowance by it: for that, give the key an override.`,
		Example: "  stint key grant --rule orders sk_live_42 50\n  stint key grant --rule logins --attribute ip=203.0.113.9 5",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 1 || len(args) == 2 {
				return nil
			}
			return usagef("%s: give a key and how many units, such as sk_live_42 50", c.CommandPath())
		},
		RunE: f.running(func(ctx context.Context, args []string) error {
			last := len(args) - 1
			units, err := strconv.ParseInt(args[last], 10, 64)
			if err != nil || units < 1 || units > stint.MaxCost {
				return usagef("%.40q is not how many units (give a whole number from 1 to %d)", args[last], stint.MaxCost)
			}
			return f.states(ctx, "/v1/grant", args[:last], units)
		}),
	}
	f.define(c, true)
	return c
}

// states asks for something that is answered by states.
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

// body is the body of a request about a key.
func (f *keyFlags) body(args []string, units int64) ([]byte, error) {
	body := map[string]any{}
	switch {
	case len(args) == 0 && len(f.attributes) == 0:
		return nil, usagef("key: is missing (give one, such as sk_live_42, or --attribute ip=203.0.113.9)")
	case len(args) > 0 && len(f.attributes) > 0:
		return nil, usagef("key: is given, and so is --attribute (give one of them)")
	case f.limit != "" && (f.rule != "" || len(f.attributes) > 0):
		return nil, usagef("limit: is for keys whose limit callers bring (give it, or --rule and --attribute)")
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
	return f.whose(body)
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

// whose adds the limit or the rule.
func (f *keyFlags) whose(body map[string]any) ([]byte, error) {
	switch {
	case f.limit != "":
		raw := limitText(f.limit)
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

// limitText is a limit as JSON: an object as it stands, or short.
func limitText(text string) json.RawMessage {
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		return json.RawMessage(text)
	}
	short, _ := json.Marshal(text) //nolint:errchkjson // a string cannot fail
	return short
}

// maxKeyLine bounds what is read of standard input for a key, in bytes.
const maxKeyLine = 64 << 10

// key is an argument, or the first line of standard input. JSON would carry
// what is no UTF-8 as the key of somebody else.
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
		return "", usagef("key: there is none in the first line of standard input")
	case key == "":
		return "", usagef("key: is empty (give one, such as sk_live_42)")
	case !utf8.ValidString(key):
		return "", usagef("key: is not UTF-8, and cannot be sent as it is")
	}
	return key, nil
}

// byteOrderMark is what some systems begin text with.
const byteOrderMark = "\ufeff"

// printStates prints what a key has left, a line a limit.
func printStates(out io.Writer, s *adminclient.States) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "RULE\tLIMIT\tOF\tREMAINING\tRESET AFTER")
	for _, l := range s.Limits {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", cell(l.Rule), cell(l.Name), l.Limit, remaining(&l), duration(l.ResetMS))
	}
	return w.Flush() // reports what the writes before it met
}

func remaining(l *adminclient.State) string {
	text := strconv.FormatInt(l.Remaining, 10)
	if l.Before != nil {
		text = fmt.Sprintf("%d (was %d)", l.Remaining, *l.Before)
	}
	if l.Listed != "" {
		text += " (on the " + cell(l.Listed) + " list)"
	}
	if l.Degraded {
		text += " (degraded: the store does not answer)"
	}
	return text
}
