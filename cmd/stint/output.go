package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"golang.org/x/term"

	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
	"github.com/stintdev/stint/cmd/stint/internal/impact"
	"github.com/stintdev/stint/rule"
)

// lines prints to w, and keeps the first error.
type lines struct {
	w   io.Writer
	err error
}

func (l *lines) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(l.w, format, args...); l.err == nil {
		l.err = err
	}
}

// printOutcome says what a change did.
func printOutcome(w io.Writer, o *adminclient.Outcome) error {
	l := &lines{w: w}
	switch {
	case !o.Changed && (o.DryRun || o.Version > 0):
		l.printf("nothing to change: version %d says so already\n", o.Version)
		return l.err
	case o.DryRun:
		l.printf("dry run on version %d: nothing is published\n", o.Version)
	default:
		l.printf("version %d is published\n", o.Version)
	}
	l.summary(o.Diff)
	return errors.Join(l.err, printImpact(w, o.Impact))
}

// summary says in words how versions differ.
func (l *lines) summary(d *adminclient.Diff) {
	if d == nil {
		return
	}
	l.names("rules", d.Rules)
	l.names("tiers", d.Tiers)
	for _, also := range []struct {
		is   bool
		what string
	}{{d.Moved, "rules: in another order"}, {d.Lists, "lists: changed"}, {d.Defaults, "defaults: changed"}} {
		if also.is {
			l.printf("%s\n", also.what)
		}
	}
	if len(d.Fresh) > 0 {
		l.printf("starts fresh: %s\n", several(freshNames(d.Fresh)))
	}
}

func (l *lines) names(what string, n adminclient.Names) {
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

// shown bounds how many names one line has.
const shown = 10

func several(names []string) string {
	text := cell(strings.Join(names[:min(len(names), shown)], ", "))
	if len(names) > shown {
		text += fmt.Sprintf(" and %d more", len(names)-shown)
	}
	return text
}

func freshNames(list []adminclient.Fresh) (names []string) {
	for _, f := range list {
		names = append(names, f.Limit+" of "+f.Rule)
	}
	return names
}

// printDiff says how two versions differ, in words and lines.
func printDiff(w io.Writer, d *adminclient.Diff) error {
	l := &lines{w: w}
	if !d.Changed {
		l.printf("no difference\n")
		return l.err
	}
	l.summary(d)
	l.printf("%s", plain(d.Text))
	if !strings.HasSuffix(d.Text, "\n") {
		l.printf("\n")
	}
	return l.err
}

// printImpact says what rules would do to the last minutes' requests.
func printImpact(w io.Writer, r *impact.Result) error {
	l := &lines{w: w}
	switch {
	case r == nil:
		return nil
	case r.Allowed == 0:
		l.printf("impact: no request was allowed in the last minutes to try it on\n")
		return l.err
	case r.Denied == 0:
		l.printf("impact: none on the %s allowed since %s\n", counted(r.Allowed, "request"), clock(r.Since))
		return l.err
	}
	l.printf("impact: denies %d of the %s allowed since %s (%.1f %%), of %s\n",
		r.Denied, counted(r.Allowed, "request"), clock(r.Since), 100*r.Share, counted(r.Callers, "caller"))
	if r.OneIn > 1 {
		l.printf("the requests of one caller in %d were kept\n", r.OneIn)
	}
	if r.Seen > 2*uint64(r.Requests) {
		l.printf("of about %d requests %d were tried\n", r.Seen, r.Requests)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "RULE\tKEY\tDENIED")
	for _, c := range append(r.Rules, r.Keys...) {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%d\n", ruleOrList(c.Rule), orAll(c.Key), c.Denied)
	}
	return errors.Join(l.err, t.Flush())
}

func ruleOrList(id string) string {
	if id == "" {
		return "the deny list"
	}
	return cell(id)
}

func orAll(key string) string {
	if key == "" {
		return "all"
	}
	return cell(key)
}

// printWarnings prints what is no mistake but may not be meant.
func printWarnings(errs io.Writer, list rule.Problems) {
	for _, w := range list {
		w.What = "warning: " + w.What
		_, _ = fmt.Fprintln(errs, plain(w.Error()))
	}
}

// clock is a time as tables show it; that of the built-in rules is none.
func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// plain is text of others, made harmless for whoever reads it at a terminal: it
// moves no cursor, and says things in the order that it has them.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ReplaceAll(strings.ToValidUTF8(text, string(unicode.ReplacementChar)), "\r\n", "\n"))
}

// cell is text of others in one line, as a cell of a table.
func cell(text string) string {
	return orDash(strings.Join(strings.Fields(plain(text)), " "))
}

// exact is text of others as it is, for a program or a file that reads it; for
// a terminal it is plain.
func exact(out any, text string) string {
	if isTerminal(out) {
		return plain(text)
	}
	return text
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
