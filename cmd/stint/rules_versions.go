package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
	"github.com/stintdev/stint/cmd/stint/internal/ruleedit"
	"github.com/stintdev/stint/rule"
)

func newHistoryCommand() *cobra.Command {
	f, n := &adminFlags{}, 0
	c := &cobra.Command{
		Use:     "history",
		Short:   "List the versions of the rules, newest first",
		Long:    "List the versions of the rules, newest first: who published each, when and why.\nA star marks the version that the node runs.",
		Example: "  stint rules history\n  stint rules history -n 5 --json",
		Args:    noArguments,
		RunE: f.running(func(ctx context.Context, _ []string) error {
			if n < 1 || n > 1000 {
				return usagef("n: %d is out of range (use 1 to 1000)", n)
			}
			var h adminclient.History
			q := adminclient.Request{Method: http.MethodGet, Path: "/rules/history", Query: url.Values{"n": {strconv.Itoa(n)}}}
			return f.ask(ctx, q, &h, func(w io.Writer) error { return printHistory(w, &h) })
		}),
	}
	c.Flags().IntVarP(&n, "number", "n", 50, "list at most this number of versions, 1 to 1000")
	f.define(c)
	f.defineSource(c)
	return c
}

func printHistory(out io.Writer, h *adminclient.History) error {
	t := newTable(out, "VERSION", "TIME", "AUTHOR", "HASH", "COMMENT")
	for _, v := range h.Versions {
		mark := ""
		if v.Version == h.Current {
			mark = "*"
		}
		comment := v.Comment
		if v.Canary != nil {
			comment = strings.TrimSpace(fmt.Sprintf("CANARY for %s beside %d %s", percent(v.Canary.Share), v.Canary.Control, comment))
		}
		t.row(fmt.Sprint(v.Version, mark), timestamp(v.Time), cell(v.Author), cell(shortHash(v.Hash)), cell(comment))
	}
	switch {
	case len(h.Versions) > 0:
	case h.Current > 0:
		t.row(fmt.Sprint(h.Current, "*"), "-", "-", "-", "the version that the node runs; the source no longer has any version")
	default:
		t.row("0*", "-", "-", "-", "the built-in rules; nothing was published")
	}
	return t.Flush()
}

func shortHash(hash string) string { return hash[:min(len(hash), 12)] }

func newNodesCommand() *cobra.Command {
	f := &adminFlags{}
	c := &cobra.Command{
		Use:   "nodes",
		Short: "Show which node runs which version of Stint and of the rules",
		Long: `Show the nodes that share their rules, which version of Stint (STINT) and of the
rules (RULES) each node runs, and since when it runs these rules. Nodes with rules
in files share them with no other node, so each shows only itself.

STALE marks a node that started from its local copy and has not reached the
source of its rules since. CANARY ON marks a node that tries new rules: see "stint
rules canary". EMERGENCY ON marks a node that obeys an emergency: see
"stint emergency status".`,
		Example: "  stint nodes\n  stint nodes --json",
		Args:    noArguments,
		RunE: f.running(func(ctx context.Context, _ []string) error {
			var n adminclient.Nodes
			return f.ask(ctx, adminclient.Request{Method: http.MethodGet, Path: "/nodes"}, &n, func(w io.Writer) error { return printNodes(w, &n) })
		}),
	}
	f.define(c)
	f.defineSource(c)
	return c
}

func printNodes(out io.Writer, n *adminclient.Nodes) error {
	t := newTable(out, "NODE", "ADDRESS", "STINT", "RULES", "HASH", "SINCE", "STATE")
	for _, node := range n.Nodes {
		state := "current"
		if node.Stale {
			state = "STALE: runs a local copy that the source has not confirmed"
		}
		if node.Canary != nil {
			state += ", CANARY ON"
		}
		if node.Emergency != "" {
			state += ", EMERGENCY ON"
		}
		t.row(cell(node.ID), cell(node.Address), cell(node.Program), node.Version, cell(shortHash(node.Hash)), timestamp(node.Since), state)
	}
	return t.Flush()
}

// showFlags are the flags of stint rules show.
type showFlags struct {
	adminFlags

	rule, tier string
}

func newShowCommand() *cobra.Command {
	f := &showFlags{}
	c := &cobra.Command{
		Use:   "show [VERSION]",
		Short: "Print the rules in force, or those of a version",
		Long: `Print the text of the rules that the node runs, or of a version. Standard error
says which version it is. Several files are printed as one text, which "stint
rules apply" accepts. Control characters are replaced on a terminal.`,
		Example: "  stint rules show > rules.yaml\n  stint rules show 11\n  stint rules show --rule orders\n  stint rules show --tier free --json",
		Args:    arguments(0, 1, "at most one version", "11"),
		RunE:    f.running(f.run),
	}
	c.Flags().StringVar(&f.rule, "rule", "", "print only the rule of this `ID`")
	c.Flags().StringVar(&f.tier, "tier", "", "print only this tier")
	f.define(c)
	f.defineSource(c)
	c.ValidArgsFunction = f.completeVersions(1)
	mustComplete(c, "rule", f.completeRules)
	mustComplete(c, "tier", f.completeTiers)
	return c
}

func (f *showFlags) run(ctx context.Context, args []string) error {
	if f.rule != "" && f.tier != "" {
		return usagef("show: --rule and --tier are both given (give one of them)")
	}
	path := "/rules"
	if len(args) > 0 {
		n, err := versionOf(args[0])
		if err != nil {
			return err
		}
		path = versionPath(n)
	}
	var s adminclient.Set
	a, err := f.client.Into(ctx, adminclient.Request{Method: http.MethodGet, Path: path}, &s)
	if err != nil {
		return err
	}
	if !f.json {
		_, _ = fmt.Fprintln(f.errs, versionLine(&s.Version)+whoseRules(&s.Version, len(args) > 0))
	}
	if f.rule+f.tier != "" {
		return f.part(s.Files)
	}
	return f.print(a, func(w io.Writer) error { return printFiles(w, s.Files) })
}

func versionOf(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, usagef("%.40q is not a version (give a number that stint rules history lists)", text)
	}
	return n, nil
}

func versionPath(n uint64) string { return "/rules/versions/" + strconv.FormatUint(n, 10) }

func versionLine(v *adminclient.Version) string {
	if v.Version == 0 {
		return "version 0: the built-in rules"
	}
	line := fmt.Sprintf("version %d, by %s at %s", v.Version, cell(v.Author), timestamp(v.Time))
	if v.Canary != nil {
		line += fmt.Sprintf(", a canary for %s of the callers", percent(v.Canary.Share))
	}
	return line
}

// whoseRules says which of the two rule sets of a canary is printed.
func whoseRules(v *adminclient.Version, named bool) string {
	switch {
	case v.Canary == nil:
		return ""
	case named:
		return "; these are its new rules"
	}
	return "; these are the old rules, which all others have"
}

// part prints one rule or tier. It finds the part in the files instead of asking
// the API for it: an id may equal a path that the API has below /rules.
func (f *showFlags) part(all []adminclient.File) error {
	files := ruleFiles(all)
	find, name := ruleedit.TextOfRule, f.rule
	if f.tier != "" {
		find, name = ruleedit.TextOfTier, f.tier
	}
	text, err := find(files, name)
	if err != nil {
		return err
	}
	return f.print(adminclient.Answer{Body: text.JSON()}, func(w io.Writer) error {
		_, err := io.WriteString(w, sanitizeFor(w, string(text.YAML())))
		return err
	})
}

// ruleFiles returns files of the API as rule files.
func ruleFiles(all []adminclient.File) []rule.File {
	files := make([]rule.File, len(all))
	for i, one := range all {
		files[i] = rule.File{Name: one.Name, Data: []byte(one.Text)}
	}
	return files
}

// printFiles prints files as one text, each file as a YAML document.
func printFiles(w io.Writer, files []adminclient.File) error {
	var all error
	for _, file := range files {
		text := file.Text
		if !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		if len(files) > 1 {
			text = "---\n# " + cell(file.Name) + "\n" + text
		}
		_, err := io.WriteString(w, sanitizeFor(w, text))
		all = errors.Join(all, err)
	}
	return all
}
