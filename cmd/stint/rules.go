package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/emergency"
	"github.com/stintdev/stint/cmd/stint/internal/identity"
	"github.com/stintdev/stint/cmd/stint/internal/impact"
	"github.com/stintdev/stint/rule"
)

func newRulesCommand() *cobra.Command {
	return newGroupCommand("rules", "Work with rule files, and with the rules of running servers",
		"  stint rules validate rules.yaml\n  stint rules apply rules.yaml\n  stint rules history",
		newValidateCommand(), newShowCommand(), newDiffCommand(), newImpactCommand(),
		newApplyCommand(), newHistoryCommand(), newRollbackCommand(), newCanaryCommand(), newPromoteCommand(), newAbortCommand(),
		newRepairCommand(), newRulesTestCommand(), newExplainCommand(), newShadowCommand())
}

func newValidateCommand() *cobra.Command {
	asJSON, server := false, serverIdentity{}
	c := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check rule files, and print every mistake in them",
		Long: `Check rule files. Each FILE is a rule set of its own. A folder is read as one
set, as stint serve --rules reads it; - is standard input.

For a valid file the command prints what would be in force: every limit of every
rule with its exact rate (rates that do not fit are rounded down), and the
warnings. For a file with mistakes it prints each one as file:line:column: what
is wrong (how to fix it), and the exit status is 2. --json prints all of it as
an array with one object for each FILE.

With --identity or --jwt-keys, as stint serve has them, the command also checks
what the rules read: a source of API keys that no request has is a mistake, and
an attribute that no HTTP request has is a warning. Without keys, that is true of
every claim of a token.

With --store-names, a rule that names another store is a mistake too. With --store,
as stint serve has it, the command warns about what a store does badly: strict rules
whose callers share a key on DynamoDB.`,
		Example: "  stint rules validate rules.yaml\n  stint rules validate /etc/stint/rules/\n  stint rules validate --json rules.yaml\n  stint rules validate --identity jwt:sub,header:X-API-Key --jwt-keys keys.json rules.yaml\n  stint rules validate --store dynamodb://limits rules.yaml",
		Args:    arguments(1, noMaximum, "at least one file", "rules.yaml"),
		RunE: func(c *cobra.Command, paths []string) error {
			server.known = c.Flags().Changed("identity") || c.Flags().Changed("jwt-keys")
			server.storesKnown = c.Flags().Changed("store-names")
			if err := server.checkSources(); err != nil {
				return err
			}
			if asJSON {
				return validateJSON(paths, &server, c.InOrStdin(), c.OutOrStdout())
			}
			return validate(paths, &server, c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().StringSliceVar(&server.sources, "identity", nil, "`SOURCE,...` of the api_key of a request, as stint serve has them")
	c.Flags().StringVar(&server.keys, "jwt-keys", "", "`FILE|URL` of the keys that verify JSON Web Tokens, as stint serve has it; it is not read")
	c.Flags().StringSliceVar(&server.stores, "store-names", nil, "`NAME,...` of the stores of stint serve that rules may name; empty for none but the default one")
	server.urls = namedValues{begins: beginsStore, unnamed: &server.defaultURL}
	c.Flags().Var(&server.urls, "store", "`[NAME=]URL` of a store, as stint serve has it; it is not opened")
	c.ValidArgsFunction = completeRuleFiles
	return c
}

// serverIdentity says which attributes the requests of a server have, and which stores the
// server has.
type serverIdentity struct {
	known   bool     // false: nothing is checked
	sources []string // of the api_key; nil: the default
	keys    string   // that verify tokens; "": none

	storesKnown bool     // false: names of stores are not checked
	stores      []string // that rules can name beside the default one

	urls       namedValues // of stores; none: they are unknown
	defaultURL string      // that of urls without a name
}

// checkSources rejects sources that no request of this server has.
func (s *serverIdentity) checkSources() error {
	for _, source := range s.sources {
		if err := identity.CheckSource(source, s.keys != ""); err != nil {
			return usagef("identity: %w", err)
		}
	}
	return nil
}

// load reads a rule set, and returns its warnings. The error lists its mistakes.
func (s *serverIdentity) load(path string, in io.Reader) (set *rule.Set, warnings rule.Problems, err error) {
	if set, err = loadRules(path, in); err != nil {
		return nil, nil, err
	}
	if s.storesKnown {
		if mistakes := set.CheckStores(s.stores...); mistakes != nil {
			return nil, nil, mistakes
		}
	}
	warnings = slices.Concat(set.Warnings(), s.fewWrites(set))
	if !s.known {
		return set, warnings, nil
	}
	if mistakes := identity.CheckRules(set, s.keys != "", true); mistakes != nil {
		return nil, nil, mistakes
	}
	return set, slices.Concat(warnings, identity.UnverifiedClaims(set, s.keys != ""), identity.UnreadableAttributes(set, s.keys != "")), nil
}

// fewWrites returns warnings about keys that a store cannot write as often as rules may ask.
func (s *serverIdentity) fewWrites(set *rule.Set) (warnings rule.Problems) {
	for _, n := range append([]named{{"", s.defaultURL}}, s.urls.named...) {
		if isDynamo(n.value) {
			for _, w := range set.StrictSharedKeys(n.name) {
				w.What = fewWritesOfDynamo + ": " + w.What
				warnings = append(warnings, w)
			}
		}
	}
	return warnings
}

// validate reads every path, also after one with mistakes.
func validate(paths []string, server *serverIdentity, in io.Reader, out, errs io.Writer) error {
	mistakes := 0
	for _, path := range paths {
		set, warnings, err := server.load(path, in)
		if err != nil {
			mistakes += len(problemsOf(path, err))
			_, _ = fmt.Fprintln(errs, sanitize(err.Error())) // the exit status reports it too
			continue
		}
		printWarnings(errs, warnings)
		if err := printRules(out, path, set); err != nil {
			return err
		}
	}
	return mistakesError(mistakes)
}

func mistakesError(n int) error {
	if n == 0 {
		return nil
	}
	return usagef("%s", counted(n, "mistake"))
}

// problemsOf returns the mistakes that err lists. Another error, such as that of
// a missing file, counts as one mistake.
func problemsOf(path string, err error) rule.Problems {
	if list, ok := errors.AsType[rule.Problems](err); ok && len(list) > 0 {
		return list
	}
	return rule.Problems{{File: path, What: err.Error()}}
}

// printRules prints a line for each limit that would be in force.
func printRules(out io.Writer, path string, set *rule.Set) error {
	if _, err := fmt.Fprintf(out, "%s: OK, %s\n", path, counted(len(set.Rules()), "rule")); err != nil {
		return err
	}
	if len(set.Rules()) == 0 {
		return nil
	}
	columns := []any{"RULE", "MODE", "TIER", "OVERRIDE", "LIMIT", "RATE PER SECOND"}
	stores := slices.ContainsFunc(set.Rules(), func(r *rule.Rule) bool { return r.Store != "" })
	if stores {
		columns = append(columns, "STORE")
	}
	t := newTable(out, columns...)
	for _, r := range set.Rules() {
		for _, e := range r.Effective(set) {
			row := func(limit any, rate string) {
				cells := []any{r.ID, r.Mode, cell(e.Tier), cell(masked(e.Override)), limit, rate}
				if stores {
					cells = append(cells, cmp.Or(r.Store, rule.DefaultStore))
				}
				t.row(cells...)
			}
			if len(e.Limits) == 0 {
				row("not counted", "-")
			}
			for _, l := range e.Limits {
				if r.DenyAll() {
					row("denies all", "-")
					continue
				}
				row(l, rateText(l))
			}
		}
	}
	return t.Flush()
}

// masked shortens a key, because this output ends up in build logs. Patterns,
// addresses and networks stay whole.
func masked(override string) string {
	_, notNetwork := netip.ParsePrefix(override)
	_, notAddress := netip.ParseAddr(override)
	if override == "" || strings.ContainsAny(override, "*?") || notNetwork == nil || notAddress == nil {
		return override
	}
	return impact.Shorten(override)
}

// rateText returns the exact rate of a limit, or "-" if it has no rate.
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

// validatedJSON is the result for one rule file or folder.
type validatedJSON struct {
	Path     string          `json:"path"`
	Valid    bool            `json:"valid"`
	Rules    int             `json:"rules"`
	Problems []problemJSON   `json:"problems"`
	Warnings []problemJSON   `json:"warnings"`
	Limits   []effectiveJSON `json:"limits"` // that would be in force
}

// problemJSON has the form of problems in the admin API.
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
	Store    string   `json:"store,omitempty"`    // none: the default store
	DenyAll  bool     `json:"deny_all,omitempty"`
	Limits   []string `json:"limits"` // none: not counted
	Rates    []string `json:"rates_per_second"`
}

func validateJSON(paths []string, server *serverIdentity, in io.Reader, out io.Writer) error {
	list, mistakes := make([]validatedJSON, 0, len(paths)), 0
	for _, path := range paths {
		v := validated(path, server, in)
		mistakes += len(v.Problems)
		list = append(list, v)
	}
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	if err := e.Encode(list); err != nil {
		return err
	}
	return mistakesError(mistakes)
}

func validated(path string, server *serverIdentity, in io.Reader) validatedJSON {
	v := validatedJSON{Path: path, Problems: []problemJSON{}, Warnings: []problemJSON{}, Limits: []effectiveJSON{}}
	set, warnings, err := server.load(path, in)
	if err != nil {
		v.Problems = problemsJSON(problemsOf(path, err))
		return v
	}
	v.Valid, v.Rules, v.Warnings = true, len(set.Rules()), problemsJSON(warnings)
	for _, r := range set.Rules() {
		for _, e := range r.Effective(set) {
			v.Limits = append(v.Limits, effectiveOf(r, e))
		}
	}
	return v
}

func problemsJSON(list rule.Problems) []problemJSON {
	out := make([]problemJSON, len(list))
	for i, p := range list {
		out[i] = problemJSON(p)
	}
	return out
}

func effectiveOf(r *rule.Rule, e rule.Effective) effectiveJSON {
	out := effectiveJSON{Rule: r.ID, Mode: r.Mode.String(), Tier: e.Tier, Override: masked(e.Override), Store: r.Store, DenyAll: r.DenyAll(), Limits: []string{}, Rates: []string{}}
	if out.DenyAll {
		return out
	}
	for _, l := range e.Limits {
		out.Limits, out.Rates = append(out.Limits, l.String()), append(out.Rates, rateText(l))
	}
	return out
}

// standardInput is the path that means rules on standard input.
const standardInput = "-"

// maxPipedRules bounds the read of standard input, in bytes. It is larger than a
// rule file may be, so that a file that is too large is rejected and not cut.
const maxPipedRules = 32 << 20

// readRules reads a rule file, a folder of them, or standard input.
func readRules(path string, in io.Reader) ([]rule.File, error) {
	if path != standardInput {
		return rule.ReadFiles(path)
	}
	data, err := io.ReadAll(io.LimitReader(in, maxPipedRules))
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return []rule.File{{Name: standardInput, Data: data}}, nil
}

// loadRules reads rules and compiles them, for a server: the id of the emergency is not free.
func loadRules(path string, in io.Reader) (set *rule.Set, err error) {
	if path != standardInput {
		set, err = rule.Load(path)
	} else if files, failed := readRules(path, in); failed != nil {
		return nil, failed
	} else {
		set, err = rule.Parse(files...)
	}
	if err != nil {
		return nil, err
	}
	if problems := emergency.CheckSet(set); problems != nil {
		return nil, problems
	}
	return set, nil
}
