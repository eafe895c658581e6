package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
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

func newApplyCommand() *cobra.Command {
	f := &changeFlags{}
	c := &cobra.Command{
		Use:   "apply FILE",
		Short: "Publish a rule file, or a folder of them, as the rules of all nodes",
		Long: `Publish a rule file, or a folder of them, as the whole set of rules, also as the
first version; - is standard input. It is in force on the node that is asked when the command ends,
and on every other within seconds.` + dangerHelp,
		Example: `  stint rules apply rules.yaml
  stint rules apply --comment "more for free users" --base 12 rules.yaml
  stint rules apply --yes --json rules/
  STINT_TOKEN=secret stint rules apply --server https://limits.example.com:6070 rules.yaml
  stint rules apply --source redis://10.0.0.5:6379/0 rules.yaml`,
		Args: exactly("a file", "rules.yaml"),
		RunE: f.running(func(ctx context.Context, args []string) error {
			files, err := readRules(args[0], f.in)
			if err != nil {
				return err
			}
			body, err := setBody(files, args[0])
			if err != nil {
				return err
			}
			return f.publish(ctx, adminclient.Request{Method: http.MethodPut, Path: "/rules", Body: body}, files)
		}),
	}
	f.define(c)
	return c
}

func newRollbackCommand() *cobra.Command {
	f := &changeFlags{}
	c := &cobra.Command{
		Use:   "rollback VERSION",
		Short: "Publish an old version again, as a new one",
		Long: `Publish what was in force as VERSION again, as a new version. stint rules history
lists them; 0 is the built-in rules.` + dangerHelp,
		Example: "  stint rules rollback 11\n  stint rules rollback --yes --comment \"12 was wrong\" 11",
		Args:    exactly("a version", "11"),
		RunE: f.running(func(ctx context.Context, args []string) error {
			n, err := versionOf(args[0])
			if err != nil {
				return err
			}
			body := []byte(`{"version":` + strconv.FormatUint(n, 10) + `}`)
			return f.publish(ctx, adminclient.Request{Method: http.MethodPost, Path: "/rules/rollback", Body: body}, nil)
		}),
	}
	f.define(c)
	return c
}

// setBody is the body of a request about rules that have no mistake. One file
// takes the name of the only one that there was.
func setBody(files []rule.File, path string) ([]byte, error) {
	if _, err := rule.Parse(files...); err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, usagef("%s: holds no rule file (to have no rules, write one that says rules: [])", path)
	}
	if len(files) == 1 {
		return files[0].Data, nil
	}
	var body struct {
		Files []adminclient.File `json:"files"`
	}
	for _, f := range files {
		body.Files = append(body.Files, adminclient.File{Name: filepath.Base(f.Name), Text: string(f.Data)})
	}
	return json.Marshal(body)
}

func versionOf(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, usagef("%.40q is not a version (give a number that stint rules history lists)", text)
	}
	return n, nil
}

// confirm shows a dangerous change and asks for it. It fails unless the answer
// is yes. All of it is beside the result, on standard error.
func (c *wholeChange) confirm(d *adminclient.Diff, o *adminclient.Outcome, dangers []string) error {
	if d != nil {
		_ = printDiff(c.errs, d) // whether it was seen, the answer tells
	}
	_ = printImpact(c.errs, o.Impact)
	_, _ = fmt.Fprintln(c.errs, "This is dangerous: "+cell(strings.Join(dangers, "; "))+".")
	if !isTerminal(c.in) {
		return errors.New("not published: it is dangerous, and there is no terminal to ask at (look at the above, then say --yes)")
	}
	_, _ = fmt.Fprint(c.errs, "Publish it? [y/N] ")
	line, err := bufio.NewReader(io.LimitReader(c.in, 1000)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("not published: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return errors.New("not published")
}
