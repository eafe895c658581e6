package main

import (
	"encoding/json"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint/cmd/stint/internal/rulecase"
	"github.com/stintdev/stint/cmd/stint/internal/ruleedit"
	"github.com/stintdev/stint/rule"
)

func newExplainCommand() *cobra.Command {
	var f explainFlags
	c := &cobra.Command{
		Use:   "explain --rules FILE --attributes JSON",
		Short: "Show which rules match a request, why, and under which keys and limits they count it",
		Long: `Show what rules do with one request, without a server and without counts: for
every rule of a file or folder the conditions that hold and the first that does
not, the key that it counts, and its limits with their source (the rule, a tier,
the defaults, or an override).

The attributes are a JSON object as in POST /v1/check. A name that no rule reads
is a mistake.`,
		Example: `  stint rules explain --rules rules.yaml --attributes '{"api_key":"alice","path":"/v1/orders"}'
  stint rules explain --rules rules.yaml --attributes '{"ip":"203.0.113.9","header:X-Plan":"gold"}' --json`,
		Args: arguments(0, 0, "only flags", "--rules rules.yaml"),
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c.InOrStdin(), c.OutOrStdout()) },
	}
	c.Flags().StringVar(&f.rules, "rules", "", "rule `FILE`, or a folder of them; - is standard input")
	c.Flags().StringVar(&f.attributes, "attributes", "", "attributes of the request, as a `JSON` object")
	c.Flags().Int64Var(&f.cost, "cost", 1, "cost of the request")
	c.Flags().BoolVar(&f.json, "json", false, "print JSON")
	return c
}

// explainFlags are the flags of stint rules explain.
type explainFlags struct {
	rules, attributes string
	cost              int64
	json              bool
}

func (f *explainFlags) run(in io.Reader, out io.Writer) error {
	if f.rules == "" {
		return usagef("rules: is missing (name a rule file or a folder)")
	}
	set, err := loadRules(f.rules, in)
	if err != nil {
		return usageError{err}
	}
	attributes, err := f.read(set)
	if err != nil {
		return err
	}
	e, err := set.Explain(attributes, f.cost)
	if err != nil {
		return usageError{err}
	}
	if f.json {
		return printExplanationJSON(out, e, set)
	}
	return printExplanation(out, e, set)
}

// read reads the attributes.
func (f *explainFlags) read(set *rule.Set) (rule.Map, error) {
	if f.attributes == "" {
		return nil, usagef(`attributes: is missing (write it as '{"api_key":"alice","path":"/v1/orders"}')`)
	}
	given := map[string]any{}
	if err := json.Unmarshal([]byte(f.attributes), &given); err != nil || given == nil { // nil: null
		return nil, usagef(`attributes: is not a JSON object of texts (write it as '{"api_key":"alice"}')`)
	}
	attributes := rule.Map{}
	for name, v := range given {
		value, ok := v.(string)
		switch {
		case !ok && name == "headers":
			return nil, usagef(`attributes: headers: is not a text (write each header by itself, as "header:user-agent":"curl")`)
		case !ok:
			return nil, usagef(`attributes: %.40q: is not a text (write the value in quotes)`, name)
		}
		name = rule.AttributeName(name)
		if mend := rulecase.UnreadAttribute(set, name); mend != "" {
			return nil, usagef("attributes: no rule reads %.40q (%s)", name, mend)
		}
		attributes[name] = value
	}
	return attributes, nil
}

func printExplanation(out io.Writer, e *rule.Explanation, set *rule.Set) error {
	l := &printer{w: out}
	switch e.List {
	case rule.ListDeny:
		l.printf("denied: the request is on a deny list, and no rule counts it\n")
	case rule.ListAllow:
		l.printf("allowed: the request is on the allow list, and no rule counts it\n")
	}
	for i := range e.Rules {
		l.rule(&e.Rules[i], set)
	}
	if len(e.Rules) == 0 {
		l.printf("there are no rules\n")
	}
	return l.err
}

// rule prints what one rule does with the request.
func (l *printer) rule(x *rule.Explained, set *rule.Set) {
	l.printf("%s (%s): %s\n", sanitize(x.Rule.ID), x.Rule.Mode, explained(x))
	for _, c := range x.Conditions {
		verb := "holds"
		if !c.Holds {
			verb = "does not hold"
		}
		l.printf("  %s %s: %s, %s\n", c.Name, sanitize(c.Want), verb, gotText(c))
	}
	if x.Key == "" {
		return
	}
	l.printf("  key: %s (by %s)\n", sanitize(rule.KeyText(x.Key)), sanitize(strings.Join(set.By(x.Rule), ", ")))
	if len(x.Missing) > 0 {
		l.printf("  missing: %s\n", sanitize(strings.Join(x.Missing, ", ")))
	}
	for _, limit := range x.Limits {
		l.printf("  limit: %s, from %s\n", sanitize(limit.String()), sanitize(sourceText(x)))
	}
	if x.Rule.Store != "" {
		l.printf("  store: %s\n", x.Rule.Store)
	}
	if x.Uncounted == "" && x.Cost != 1 {
		l.printf("  cost: %d\n", x.Cost)
	}
}

func gotText(c rule.Condition) string {
	if c.Got == "" {
		return "the request has none"
	}
	return "the request has " + sanitize(c.Got)
}

// explained returns the first line of a rule.
func explained(x *rule.Explained) string {
	switch {
	case x.Rule.Mode == rule.Off:
		return "is off"
	case !x.Matches:
		return "does not match"
	case x.Denies && x.Rule.Mode == rule.Shadow:
		return "would deny: " + sanitize(x.Uncounted)
	case x.Denies:
		return "denies: " + sanitize(x.Uncounted)
	case x.Uncounted != "":
		return "does not count the request: " + sanitize(x.Uncounted)
	case x.Key == "":
		return "matches"
	case x.Rule.Any():
		return "counts the request, which needs one of the limits"
	}
	return "counts the request"
}

// sourceText returns where the limits of a rule come from.
func sourceText(x *rule.Explained) string {
	source := "the " + x.Source
	if x.Source == "tier" {
		source += " " + x.Tier
	}
	switch {
	case x.Temporary:
		return "the temporary override " + x.Override + " over " + source
	case x.Override != "":
		return "the override " + x.Override + " over " + source
	}
	return source
}

func printExplanationJSON(out io.Writer, e *rule.Explanation, set *rule.Set) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(ruleedit.ExplainedOf(e, set))
}
