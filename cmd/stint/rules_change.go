package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
	"github.com/stintdev/stint/rule"
)

// changeFlags are those of commands that put another set in place of the rules.
type changeFlags struct {
	adminFlags

	yes, dryRun bool
	comment     string
	base        string
}

func (f *changeFlags) define(c *cobra.Command) {
	flags := c.Flags()
	flags.BoolVarP(&f.yes, "yes", "y", false, "publish also what is dangerous, without asking")
	flags.BoolVar(&f.dryRun, "dry-run", false, "say what would change, and publish nothing")
	flags.StringVar(&f.comment, "comment", "", "why, for the history")
	flags.StringVar(&f.base, "base", "", "the `VERSION` that this was made from: fail when it is not in force any more")
	f.adminFlags.define(c)
	f.defineSource(c)
}

// dangerHelp says what the commands of changeFlags ask about.
const dangerHelp = `

A change is dangerous when it removes rules or tiers, when limits start fresh,
or when the server refuses it because it would deny too much of what was allowed
in the last minutes. The change and what it would do are then shown, and you are
asked; --yes answers. Without a terminal and without --yes a dangerous change is
not published, and the exit status is 1.

It is published on what was in force when the command began: when somebody else
publishes in between, nothing is lost. You are shown what they changed, and the
exit status is 1. With --base that holds from the version that you began with.`

// wholeChange is another set in place of all rules.
type wholeChange struct {
	*changeFlags

	request adminclient.Request
	files   []rule.File // that it was read from; may be none
	tag     string      // of what they are to replace
}

func (f *changeFlags) publish(ctx context.Context, q adminclient.Request, files []rule.File) error {
	if err := checkComment("comment", f.comment); err != nil {
		return err
	}
	tag, err := f.baseTag(ctx)
	if err != nil {
		return err
	}
	c := &wholeChange{changeFlags: f, request: q, files: files, tag: tag}
	return c.explained(c.run(ctx))
}

// baseTag is the tag of what the change was made from.
func (f *changeFlags) baseTag(ctx context.Context) (string, error) {
	path := "/rules"
	if f.base != "" {
		n, err := versionOf(f.base)
		if err != nil {
			return "", err
		}
		path = versionPath(n)
	}
	a, err := f.client.Into(ctx, adminclient.Request{Method: http.MethodGet, Path: path}, &adminclient.Set{})
	if err == nil && a.Tag == "" {
		err = errors.New("the answer has no ETag, without which the change of somebody else could be lost (what stands before the server is to let it through)")
	}
	return a.Tag, err
}

// run tries the change, and asks before it is made where that may be wrong.
func (c *wholeChange) run(ctx context.Context) error {
	trial, answer, err := c.send(ctx, url.Values{"dry_run": {"true"}})
	if err != nil {
		return err
	}
	printWarnings(c.errs, trial.Warnings)
	dangers := dangersOf(trial)
	if c.dryRun && len(dangers) > 0 {
		_, _ = fmt.Fprintln(c.errs, "This is dangerous, and would be asked about: "+cell(strings.Join(dangers, "; "))+".")
	}
	if c.dryRun || !trial.Changed && trial.Version > 0 {
		return c.told(trial, answer)
	}
	sure := c.yes
	if !sure && len(dangers) > 0 {
		if err := c.confirm(trial.Diff, trial, dangers); err != nil {
			return err
		}
		sure = true
	}
	return c.make(ctx, trial, sure)
}

// make publishes the change. What the server finds too hard on callers is
// forced when somebody who has seen that is sure.
func (c *wholeChange) make(ctx context.Context, trial *adminclient.Outcome, sure bool) error {
	outcome, answer, err := c.send(ctx, nil)
	if refused, ok := errors.AsType[*adminclient.Error](err); ok && refused.Code == adminclient.CodeImpact {
		trial.Impact = refused.Impact
		if !sure {
			err = c.confirm(trial.Diff, trial, []string{refused.Message})
			sure = err == nil
		}
		if sure {
			outcome, answer, err = c.send(ctx, url.Values{"force": {"true"}})
		}
	}
	if err != nil {
		return err
	}
	return c.told(outcome, answer)
}

func (c *wholeChange) send(ctx context.Context, query url.Values) (*adminclient.Outcome, adminclient.Answer, error) {
	q, out := c.request, &adminclient.Outcome{}
	q.Query, q.IfMatch, q.Comment, q.Change = query, c.tag, c.comment, !query.Has("dry_run")
	a, err := c.client.Into(ctx, q, out)
	return out, a, err
}

func (c *wholeChange) told(o *adminclient.Outcome, a adminclient.Answer) error {
	return c.print(a, func(w io.Writer) error { return printOutcome(w, o) })
}

// dangersOf says what may not be meant. What follows the built-in rules, which
// nobody has chosen, removes nothing.
func dangersOf(o *adminclient.Outcome) (list []string) {
	if o.Version == 0 || o.Diff == nil {
		return nil
	}
	if gone := o.Diff.Rules.Removed; len(gone) > 0 {
		list = append(list, fmt.Sprintf("it removes %s (%s)", counted(len(gone), "rule"), several(gone)))
	}
	if gone := o.Diff.Tiers.Removed; len(gone) > 0 {
		list = append(list, fmt.Sprintf("it removes %s (%s)", counted(len(gone), "tier"), several(gone)))
	}
	if fresh := o.Diff.Fresh; len(fresh) > 0 {
		list = append(list, fmt.Sprintf("%s fresh, as if nobody had used anything (%s)", startsOf(len(fresh)), several(freshNames(fresh))))
	}
	return list
}

func startsOf(n int) string {
	if n == 1 {
		return "1 limit starts"
	}
	return fmt.Sprintf("%d limits start", n)
}

// explained names mistakes by the files that they are in, and shows what
// somebody else has changed.
func (c *wholeChange) explained(err error) error {
	refused, ok := errors.AsType[*adminclient.Error](err)
	if !ok {
		return err
	}
	if len(refused.Problems) > 0 {
		return localProblems(refused.Problems, c.files)
	}
	if refused.Code == adminclient.CodePrecondition && refused.Diff != nil {
		_, _ = fmt.Fprintf(c.errs, "What somebody else has changed, from version %d to %d:\n", refused.Diff.From, refused.Diff.To)
		_ = printDiff(c.errs, refused.Diff)
	}
	return err
}

// localProblems are mistakes that a server has found, where their files are.
func localProblems(list rule.Problems, files []rule.File) error {
	for i := range list {
		for _, f := range files {
			if len(files) == 1 || strings.HasSuffix(f.Name, "/"+list[i].File) {
				list[i].File = f.Name
			}
		}
	}
	return list
}
