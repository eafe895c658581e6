package main

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/impact"
	"github.com/stintdev/stint/rule"
)

func newRulesCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "rules",
		Short:   "Work with rule files, and with the rules of running servers",
		Example: "  stint rules validate rules.yaml\n  stint rules apply rules.yaml\n  stint rules history",
		Args:    subcommandOnly,
		RunE: func(c *cobra.Command, _ []string) error {
			return usagef("say what to do with rules (see %s --help)", c.CommandPath())
		},
	}
	c.AddCommand(newValidateCommand(), newShowCommand(), newDiffCommand(), newImpactCommand(),
		newApplyCommand(), newHistoryCommand(), newRollbackCommand(), newRepairCommand())
	return c
}

func newValidateCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check rule files, and print every mistake in them",
		Long: `Check rule files. Each FILE is one rule set of its own; a folder is read as one
set, as stint serve --rules reads it, and - is standard input.

Without a mistake, what is in force is printed: every limit of every rule, with
the exact rate that it has (rates that do not fit are rounded down) and the
warnings. With one, every mistake is printed as file:line:column: what (the
mend), and the exit status is 2. With --json all of it is an array of objects,
one for each FILE, on standard output.`,
		Example: "  stint rules validate rules.yaml\n  stint rules validate /etc/stint/rules/\n  stint rules validate --json rules.yaml",
		Args:    atLeastOne("a file", "rules.yaml"),
		RunE: func(c *cobra.Command, paths []string) error {
			if asJSON {
				return validateJSON(paths, c.InOrStdin(), c.OutOrStdout())
			}
			return validate(paths, c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// validate reads every path, also after one that has mistakes.
func validate(paths []string, in io.Reader, out, errs io.Writer) error {
	wrong := 0
	for _, path := range paths {
		set, err := loadRules(path, in)
		if err != nil {
			wrong += problems(err)
			_, _ = fmt.Fprintln(errs, plain(err.Error())) // the exit status tells all the same
			continue
		}
		printWarnings(errs, set.Warnings())
		if err := printRules(out, path, set); err != nil {
			return err
		}
	}
	if wrong > 0 {
		return usagef("%s", counted(wrong, "mistake"))
	}
	return nil
}

func problems(err error) int {
	var all rule.Problems
	if errors.As(err, &all) && len(all) > 0 {
		return len(all)
	}
	return 1
}

// printRules prints what is in force, a line a limit.
func printRules(out io.Writer, path string, set *rule.Set) error {
	if _, err := fmt.Fprintf(out, "%s: OK, %s\n", path, counted(len(set.Rules()), "rule")); err != nil {
		return err
	}
	if len(set.Rules()) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "RULE\tMODE\tTIER\tOVERRIDE\tLIMIT\tRATE PER SECOND")
	for _, r := range set.Rules() {
		for _, e := range r.Effective(set) {
			printEffective(w, r, e)
		}
	}
	return w.Flush() // reports what the writes before it met
}

func printEffective(w io.Writer, r *rule.Rule, e rule.Effective) {
	of := fmt.Sprintf("%s\t%s\t%s\t%s", r.ID, modeText(r), cell(e.Tier), cell(masked(e.Override)))
	if len(e.Limits) == 0 {
		_, _ = fmt.Fprintf(w, "%s\tnot counted\t-\n", of)
	}
	for _, l := range e.Limits {
		if r.DenyAll() {
			_, _ = fmt.Fprintf(w, "%s\tdenies all\t-\n", of)
			continue
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", of, l, rateText(l))
	}
}

func modeText(r *rule.Rule) string {
	switch r.Mode {
	case rule.Shadow:
		return "shadow"
	case rule.Off:
		return "off"
	}
	return "enforce"
}

// masked shows patterns and networks whole, and keys shortened: what is printed
// here ends up in build logs.
func masked(override string) string {
	_, notNetwork := netip.ParsePrefix(override)
	_, notAddress := netip.ParseAddr(override)
	if override == "" || strings.ContainsAny(override, "*?") || notNetwork == nil || notAddress == nil {
		return override
	}
	return impact.Shorten(override)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// rateText is the exact rate of a limit that has one.
func rateText(l stint.Limit) string {
	rate := l.Rate()
	if rate == nil {
		return "-"
	}
	text := rate.RatString()
	if l.Rounded() {
		text += " (rounded down)"
	}
	return text
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
