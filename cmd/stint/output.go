package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"golang.org/x/term"

	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
	"github.com/stintdev/stint/cmd/stint/internal/impact"
	"github.com/stintdev/stint/rule"
)

// printOutcome prints the result of a change.
func printOutcome(w io.Writer, o *adminclient.Outcome) error {
	l := &printer{w: w}
	switch {
	case !o.Changed && (o.DryRun || o.Version > 0):
		l.printf("nothing to change: version %d has the same rules\n", o.Version)
		return l.err
	case o.DryRun:
		l.printf("dry run on version %d: nothing is published\n", o.Version)
	case o.Canary == nil:
		l.printf("version %d is published\n", o.Version)
	default:
		l.printf("version %d is published as a canary\n", o.Version)
	}
	l.summary(o.Diff)
	if o.Canary != nil {
		l.canary(o.Canary)
	}
	l.impact(o.Impact)
	return l.err
}

// printDiff prints a summary of the difference between two versions, and the
// lines that differ.
func printDiff(w io.Writer, d *adminclient.Diff) error {
	l := &printer{w: w}
	l.summary(d)
	for line := range strings.Lines(sanitize(d.Text)) {
		line = strings.TrimSuffix(line, "\n")
		if style := lineStyle(line); style != "" && coloured(w) {
			line = style + line + plainStyle
		}
		l.printf("%s\n", line)
	}
	return l.err
}

// The styles of a terminal.
const (
	plainStyle = "\x1b[0m"
	boldStyle  = "\x1b[1m"
	redStyle   = "\x1b[31m"
	greenStyle = "\x1b[32m"
	cyanStyle  = "\x1b[36m"
)

// lineStyle returns the style of a line of diff -u, or "".
func lineStyle(line string) string {
	for _, s := range []struct{ prefix, style string }{
		{"--- ", boldStyle}, {"+++ ", boldStyle}, {"@@", cyanStyle}, {"-", redStyle}, {"+", greenStyle},
	} {
		if strings.HasPrefix(line, s.prefix) {
			return s.style
		}
	}
	return ""
}

// coloured reports whether output to w has colours: on a terminal, unless the environment
// refuses them (https://no-color.org).
func coloured(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// printWarnings prints the warnings about valid rules.
func printWarnings(errs io.Writer, list rule.Problems) {
	for _, w := range list {
		w.What = "warning: " + w.What
		_, _ = fmt.Fprintln(errs, sanitize(w.Error()))
	}
}

// printer prints to w and keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (l *printer) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(l.w, format, args...); l.err == nil {
		l.err = err
	}
}

// summary prints which parts of the rules differ.
func (l *printer) summary(d *adminclient.Diff) {
	if d == nil {
		return
	}
	l.names("rules", d.Rules)
	l.names("tiers", d.Tiers)
	l.limits(d)
	if d.Moved {
		l.printf("rules: in another order\n")
	}
	if d.Lists {
		l.printf("lists: changed\n")
	}
	if d.Defaults {
		l.printf("defaults: changed\n")
	}
	if len(d.Fresh) > 0 {
		l.printf("starts fresh: %s\n", several(freshNames(d.Fresh)))
	}
}

// limits prints a line for each limit that differs, such as "  orders, tier pro: 500/m → 10/m".
func (l *printer) limits(d *adminclient.Diff) {
	for _, c := range d.Limits[:min(len(d.Limits), maxLimitLines)] {
		where := cell(c.Rule)
		if c.Tier != "" {
			where += ", tier " + cell(c.Tier)
		}
		if c.Override != "" {
			where += ", override " + cell(masked(c.Override))
		}
		l.printf("  %s: %s → %s\n", where, cellOr(c.Was, "new"), cellOr(c.Is, "removed"))
	}
	if others := max(0, len(d.Limits)-maxLimitLines) + d.LimitsMore; others > 0 {
		l.printf("  and %s more\n", counted(others, "limit"))
	}
}

// maxLimitLines is the greatest number of limits that a summary lists.
const maxLimitLines = 20

func (l *printer) names(what string, n adminclient.Names) {
	var parts []string
	for _, p := range []struct {
		verb  string
		names []string
	}{{"added", n.Added}, {"changed", n.Changed}, {"removed", n.Removed}} {
		if len(p.names) > 0 {
			parts = append(parts, fmt.Sprintf("%d %s (%s)", len(p.names), p.verb, several(p.names)))
		}
	}
	if len(parts) > 0 {
		l.printf("%s: %s\n", what, strings.Join(parts, ", "))
	}
}

// impact prints what rules would do to the requests of the last minutes.
func (l *printer) impact(r *impact.Result) {
	switch {
	case r == nil:
	case r.Announced > r.Nodes:
		l.printf("impact: on the requests of %d of %d nodes (rules impact, apply and rollback take the addresses of all: --server URL,URL,…)\n", r.Nodes, r.Announced)
	case r.Nodes > 1:
		l.printf("impact: on the requests of %d nodes together\n", r.Nodes)
	}
	switch {
	case r == nil || r.Requests == 0 && r.Allowed == 0:
		if r != nil {
			l.printf("impact: unknown, no request was allowed in the last minutes\n")
		}
		return
	case r.Allowed == 0:
		l.printf("impact: no request was allowed in the last minutes, so none can be denied\n")
	case r.Denied == 0:
		l.printf("impact: none on the %s allowed since %s\n", counted(r.Allowed, "request"), timestamp(r.Since))
	default:
		l.printf("impact: denies %d of the %s allowed since %s (%.1f %%), of %s\n",
			r.Denied, counted(r.Allowed, "request"), timestamp(r.Since), 100*r.Share, counted(r.Callers, "caller"))
		if r.Allowed < impact.LeastAllowed {
			l.printf("impact: too few requests to refuse a change for (fewer than %d)\n", impact.LeastAllowed)
		}
	}
	if r.Admitted > 0 {
		l.printf("impact: admits %s more than the rules in force (%.1f %% more), of %s\n",
			counted(r.Admitted, "request"), 100*r.AdmittedShare, counted(r.AdmittedCallers, "caller"))
	}
	if r.Denied == 0 && r.Admitted == 0 {
		return
	}
	if r.OneIn > 1 {
		l.printf("sampled: the requests of one caller in %d\n", r.OneIn)
	}
	if r.Seen > 2*uint64(r.Requests) {
		l.printf("sampled: %d of about %d requests\n", r.Requests, r.Seen)
	}
	t := newTable(l.w, "RULE", "KEY", "HASH", "DENIED", "ADMITTED")
	for _, c := range slices.Concat(r.Rules, r.Keys, r.AdmittedKeys) {
		t.row(cellOr(c.Rule, "the deny list"), cellOr(c.Key, "all"), cell(c.Hash), c.Denied, c.Admitted)
	}
	l.err = errors.Join(l.err, t.Flush())
}

// maxNames is the greatest number of names in one line.
const maxNames = 10

func several(names []string) string {
	text := cell(strings.Join(names[:min(len(names), maxNames)], ", "))
	if len(names) > maxNames {
		text += fmt.Sprintf(" and %d more", len(names)-maxNames)
	}
	return text
}

func freshNames(list []adminclient.Fresh) (names []string) {
	for _, f := range list {
		names = append(names, f.Limit+" of "+f.Rule)
	}
	return names
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// timestamp returns a time as tables show it. The zero time is that of the
// built-in rules.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// table prints rows in aligned columns. Its Flush reports the first error.
type table struct{ *tabwriter.Writer }

func newTable(out io.Writer, headings ...any) table {
	t := table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	t.row(headings...)
	return t
}

func (t table) row(cells ...any) {
	_, _ = fmt.Fprintf(t, strings.Repeat("%v\t", len(cells)-1)+"%v\n", cells...)
}

// cell returns untrusted text as one line for a table. Empty text becomes "-".
func cell(text string) string { return cellOr(text, "-") }

func cellOr(text, ifEmpty string) string {
	if text = strings.Join(strings.Fields(sanitize(text)), " "); text == "" {
		return ifEmpty
	}
	return text
}

// sanitize makes untrusted text safe to show on a terminal: it replaces control
// characters, which could move the cursor, and characters that reverse the
// direction of text, which could make it read differently.
func sanitize(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ReplaceAll(strings.ToValidUTF8(text, string(unicode.ReplacementChar)), "\r\n", "\n"))
}

// sanitizeFor sanitizes text if out is a terminal. A file or a program gets the
// text unchanged.
func sanitizeFor(out any, text string) string {
	if isTerminal(out) {
		return sanitize(text)
	}
	return text
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
