package main

import (
	"encoding/json"
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

// checkedJSON is what is found in one rule file or folder.
type checkedJSON struct {
	Path     string          `json:"path"`
	Valid    bool            `json:"valid"`
	Rules    int             `json:"rules"`
	Problems []problemJSON   `json:"problems"`
	Warnings []problemJSON   `json:"warnings"`
	Limits   []effectiveJSON `json:"limits"` // what is in force
}

// problemJSON is as the admin API writes problems.
type problemJSON struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	What   string `json:"what"`
	Mend   string `json:"mend,omitempty"`
}

type effectiveJSON struct {
	Rule     string   `json:"rule"`
	Mode     string   `json:"mode"`
	Tier     string   `json:"tier,omitempty"`
	Override string   `json:"override,omitempty"` // keys shortened
	DenyAll  bool     `json:"deny_all,omitempty"`
	Limits   []string `json:"limits"` // none: not counted
	Rates    []string `json:"rates_per_second"`
}

func validateJSON(paths []string, in io.Reader, out io.Writer) error {
	list, wrong := make([]checkedJSON, 0, len(paths)), 0
	for _, path := range paths {
		one := checked(path, in)
		wrong += len(one.Problems)
		list = append(list, one)
	}
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	if err := e.Encode(list); err != nil {
		return err
	}
	if wrong > 0 {
		return usagef("%s", counted(wrong, "mistake"))
	}
	return nil
}

func checked(path string, in io.Reader) checkedJSON {
	c := checkedJSON{Path: path, Problems: []problemJSON{}, Warnings: []problemJSON{}, Limits: []effectiveJSON{}}
	set, err := loadRules(path, in)
	if err != nil {
		list, ok := errors.AsType[rule.Problems](err)
		if !ok {
			list = rule.Problems{{File: path, What: err.Error()}}
		}
		c.Problems = problemsJSON(list)
		return c
	}
	c.Valid, c.Rules, c.Warnings = true, len(set.Rules()), problemsJSON(set.Warnings())
	for _, r := range set.Rules() {
		for _, e := range r.Effective(set) {
			c.Limits = append(c.Limits, effectiveOf(r, e))
		}
	}
	return c
}

func problemsJSON(list rule.Problems) []problemJSON {
	out := make([]problemJSON, len(list))
	for i, p := range list {
		out[i] = problemJSON(p)
	}
	return out
}

func effectiveOf(r *rule.Rule, e rule.Effective) effectiveJSON {
	out := effectiveJSON{Rule: r.ID, Mode: modeText(r), Tier: e.Tier, Override: masked(e.Override), DenyAll: r.DenyAll(), Limits: []string{}, Rates: []string{}}
	for _, l := range e.Limits {
		if r.DenyAll() {
			continue
		}
		out.Limits, out.Rates = append(out.Limits, l.String()), append(out.Rates, rateText(l))
	}
	return out
}

// standardInput stands for rules that are piped in.
const standardInput = "-"

// mostPiped bounds what is read of standard input, in bytes: over what a rule
// file may have, so that one is refused and not cut.
const mostPiped = 32 << 20

// readRules reads a file, a folder of them, or standard input.
func readRules(path string, in io.Reader) ([]rule.File, error) {
	if path != standardInput {
		return rule.ReadFiles(path)
	}
	data, err := io.ReadAll(io.LimitReader(in, mostPiped))
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return []rule.File{{Name: standardInput, Data: data}}, nil
}

// loadRules is [readRules] for one who wants to know what they say.
func loadRules(path string, in io.Reader) (*rule.Set, error) {
	if path != standardInput {
		return rule.Load(path)
	}
	files, err := readRules(path, in)
	if err != nil {
		return nil, err
	}
	return rule.Parse(files...)
}
