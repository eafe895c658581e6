package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
)

// danger is one reason to ask before a change is published.
type danger struct{ name, text string }

// The names of dangers, the worst first.
const (
	dangerImpact  = "impact"
	dangerRemoves = "removes"
	dangerResets  = "resets"

	allDangers = "all"
)

// knownDangers returns the names of all dangers, the worst first.
func knownDangers() []string { return []string{dangerImpact, dangerRemoves, dangerResets} }

// dangersNamed reads the dangers that --yes accepts.
func dangersNamed(text string) ([]string, error) {
	known := knownDangers()
	switch text {
	case "", "false":
		return nil, nil
	case allDangers, "true":
		return known, nil
	}
	list := strings.Split(text, ",")
	for i, name := range list {
		if list[i] = strings.TrimSpace(name); !slices.Contains(known, list[i]) {
			return nil, usagef("yes: %.40q is not a danger (use impact, removes and resets, or --yes alone for all)", name)
		}
	}
	return list, nil
}

// dangersOf returns what is dangerous about a change, the worst first. Replacing the built-in
// rules is never dangerous, because nobody chose those.
func dangersOf(o *adminclient.Outcome) (list []danger) {
	if r := o.Impact; r != nil && r.AboveLimit {
		list = append(list, danger{dangerImpact, fmt.Sprintf("it would deny %.1f %% of the requests that were allowed in the last minutes, and the limit is %.1f %%", 100*r.Share, 100*r.Limit)})
	}
	if o.Version == 0 || o.Diff == nil {
		return list
	}
	var removed []string
	if names := o.Diff.Rules.Removed; len(names) > 0 {
		removed = append(removed, fmt.Sprintf("%s (%s)", counted(len(names), "rule"), several(names)))
	}
	if names := o.Diff.Tiers.Removed; len(names) > 0 {
		removed = append(removed, fmt.Sprintf("%s (%s)", counted(len(names), "tier"), several(names)))
	}
	if removed != nil {
		list = append(list, danger{dangerRemoves, "it removes " + strings.Join(removed, " and ")})
	}
	if fresh := o.Diff.Fresh; len(fresh) > 0 {
		list = append(list, danger{dangerResets, fmt.Sprintf("it resets the counts of %s (%s)", counted(len(fresh), "limit"), several(freshNames(fresh)))})
	}
	return list
}

func dangerTexts(dangers []danger) (texts []string) {
	for _, d := range dangers {
		texts = append(texts, d.text)
	}
	return texts
}

// confirm shows a dangerous change on standard error, and asks once for each danger that is not
// accepted. It fails unless each answer is yes.
func (c *wholeChange) confirm(o *adminclient.Outcome, dangers []danger) error {
	dangers = slices.DeleteFunc(slices.Clone(dangers), func(d danger) bool { return slices.Contains(c.sure, d.name) })
	if len(dangers) == 0 {
		return nil
	}
	l := &printer{w: c.errs} // a failed write changes nothing: the answer decides
	if o.Diff != nil {
		_ = printDiff(c.errs, o.Diff)
	}
	l.impact(o.Impact)
	var names []string
	for _, d := range dangers {
		names = append(names, d.name)
		if !isTerminal(c.in) {
			l.printf("This is dangerous: %s.\n", cell(d.text))
		}
	}
	if !isTerminal(c.in) {
		all := slices.DeleteFunc(knownDangers(), func(name string) bool { return !slices.Contains(names, name) && !slices.Contains(c.sure, name) })
		return fmt.Errorf("not published: there is no terminal to ask at (read the output above, then repeat the command with --yes=%s)", strings.Join(all, ","))
	}
	for _, d := range dangers {
		l.printf("This is dangerous: %s.\n", cell(d.text))
		if err := askYes(c.in, c.errs, "Publish it?", "not published"); err != nil {
			return err
		}
		c.sure = append(c.sure, d.name)
	}
	return nil
}

// askYes asks a question at the terminal. It fails unless the answer is yes; the
// error begins with the given consequence.
func askYes(in io.Reader, errs io.Writer, question, otherwise string) error {
	if !isTerminal(in) {
		return fmt.Errorf("%s: there is no terminal to ask at (read the output above, then repeat the command with --yes)", otherwise)
	}
	_, _ = fmt.Fprint(errs, question+" [y/N] ")
	line, err := bufio.NewReader(io.LimitReader(in, 1000)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", otherwise, err)
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return errors.New(otherwise)
	}
	return nil
}
