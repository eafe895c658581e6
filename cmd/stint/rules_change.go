package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
	"github.com/stintdev/stint/rule"
)

func newApplyCommand() *cobra.Command {
	f, canary := &changeFlags{}, canaryFlags{}
	c := &cobra.Command{
		Use:   "apply FILE",
		Short: "Publish a rule file, or a folder of them, as the rules of all nodes",
		Long: `Publish a rule file, or a folder of them, as the whole rule set, also as the
first version. A FILE of - is standard input. When the command ends, the new
version is in force on the node that it called; other nodes follow within
seconds.

With --canary only a share of the callers gets the new rules, and the others keep
the old ones. Nothing else can be published until the canary ends: by "stint rules
promote" or "stint rules abort", by a node after --soak, or by a node that aborts
it, because it denies more than --abort-above allows or has errors. Each side must
have had 1000 requests before a node ends it. A canary needs rules in Redis or
PostgreSQL. Rules whose counts callers of both sides share keep their old limits
until the promotion; the command lists them.` + dangerHelp,
		Example: `  stint rules apply rules.yaml
  stint rules apply --comment "more for free users" --base 12 rules.yaml
  stint rules apply --canary 5% --soak 10m --abort-above 2% rules.yaml
  stint rules apply --yes --json rules/
  STINT_TOKEN=secret stint rules apply --server https://limits.example.com:6070 rules.yaml
  stint rules apply --source redis://10.0.0.5:6379/0 rules.yaml`,
		Args: arguments(1, 1, "a file", "rules.yaml"),
		RunE: f.runningOnAll(func(ctx context.Context, args []string) error {
			files, body, err := rulesBody(args[0], f.in)
			if err != nil {
				return err
			}
			if f.query, err = canary.query(); err != nil {
				return err
			}
			return f.publish(ctx, adminclient.Request{Method: http.MethodPut, Path: "/rules", Body: body}, files)
		}),
	}
	canary.define(c)
	f.define(c)
	c.ValidArgsFunction = completeRuleFiles
	return c
}

func newRollbackCommand() *cobra.Command {
	f := &changeFlags{}
	c := &cobra.Command{
		Use:   "rollback VERSION",
		Short: "Publish an old version again, as a new one",
		Long: `Publish the rules of an old version again, as a new version. "stint rules
history" lists the versions; 0 is the built-in rules.` + dangerHelp,
		Example: "  stint rules rollback 11\n  stint rules rollback --yes --comment \"12 was wrong\" 11",
		Args:    arguments(1, 1, "a version", "11"),
		RunE: f.runningOnAll(func(ctx context.Context, args []string) error {
			n, err := versionOf(args[0])
			if err != nil {
				return err
			}
			body := []byte(`{"version":` + strconv.FormatUint(n, 10) + `}`)
			return f.publish(ctx, adminclient.Request{Method: http.MethodPost, Path: "/rules/rollback", Body: body}, nil)
		}),
	}
	f.define(c)
	c.ValidArgsFunction = f.completeVersions(1)
	return c
}

// rulesBody reads valid rules and returns them with the body of a request that
// sends them. A single file is sent as it is, several files as JSON.
func rulesBody(path string, in io.Reader) ([]rule.File, []byte, error) {
	files, err := readRules(path, in)
	if err != nil {
		return nil, nil, err
	}
	if _, err := rule.Parse(files...); err != nil {
		return nil, nil, err
	}
	if len(files) == 0 {
		return nil, nil, usagef("%s: holds no rule file (to have no rules, write a file with rules: [])", path)
	}
	if len(files) == 1 {
		return files, files[0].Data, nil
	}
	var body struct {
		Files []adminclient.File `json:"files"`
	}
	for _, f := range files {
		body.Files = append(body.Files, adminclient.File{Name: filepath.Base(f.Name), Text: string(f.Data)})
	}
	data, err := json.Marshal(body)
	return files, data, err
}

// changeFlags are the flags of the commands that publish a whole rule set.
type changeFlags struct {
	serversFlags

	pipelineFlags

	yes     string // the accepted dangers
	dryRun  bool
	comment string
	base    string
	query   url.Values // further parameters of the request; may be nil
}

func (f *changeFlags) define(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVarP(&f.yes, "yes", "y", "", "publish a dangerous change without asking: all dangers, or those `NAMED` as --yes=impact,removes,resets")
	flags.Lookup("yes").NoOptDefVal = allDangers
	flags.BoolVar(&f.dryRun, "dry-run", false, "show what would change, and publish nothing")
	f.pipelineFlags.define(c, "after a --dry-run that shows a difference")
	flags.StringVar(&f.comment, "comment", "", "reason for the change, for the history")
	flags.StringVar(&f.base, "base", "", "the `VERSION` that you edited: fail if it is no longer in force")
	f.serversFlags.define(c)
	f.defineSource(c)
	mustComplete(c, "base", f.completeVersionFlag)
}

// dangerHelp describes the confirmation that the commands of changeFlags ask
// for.
const dangerHelp = `

There are three dangers, the worst first: impact (the server refuses the change,
because it would deny too many requests that were allowed in the last minutes),
removes (it removes rules or tiers) and resets (it resets the counts of limits). The
command then shows the change with its impact, and asks once for each danger. --yes
accepts all of them, --yes=impact,removes those that it names. Without a terminal, a
change with a danger that --yes does not accept is not published, and the exit status
is 1.

The change applies to the version that was in force when the command began. If
somebody else publishes in between, the command publishes nothing, shows what
they changed, and exits with status 1. --base extends this protection back to the
version that you edited.

Each server has only its own requests of the last minutes. Give --server several
addresses, separated by commas, to find the impact on the requests of all of them. The
first server publishes the change. The command fails if one does not answer.`

// wholeChange replaces the whole rule set.
type wholeChange struct {
	*changeFlags

	request adminclient.Request
	files   []rule.File // the new rules; none for a rollback
	tag     string      // entity tag of the rules to replace
	sure    []string    // the accepted dangers
}

func (f *changeFlags) publish(ctx context.Context, q adminclient.Request, files []rule.File) error {
	if err := checkComment("comment", f.comment); err != nil {
		return err
	}
	sure, err := dangersNamed(f.yes)
	if err != nil {
		return err
	}
	if f.detailed && !f.dryRun {
		return usagef("detailed-exitcode: is given without --dry-run (give both, or neither)")
	}
	tag, err := f.baseTag(ctx)
	if err != nil {
		return err
	}
	c := &wholeChange{changeFlags: f, request: q, files: files, tag: tag, sure: sure}
	return c.explained(c.run(ctx))
}

// baseTag returns the entity tag of the version that --base names, or of the
// version in force. The server refuses the change if the tag is outdated.
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
		err = errors.New("the answer has no ETag, so a concurrent change could be lost (a proxy before the server must pass the ETag on)")
	}
	return a.Tag, err
}

// run tries the change, asks for confirmation of a dangerous one, and makes it.
func (c *wholeChange) run(ctx context.Context) error {
	trial, answer, err := c.send(ctx, url.Values{"dry_run": {"true"}})
	if err != nil {
		return err
	}
	printWarnings(c.errs, localProblems(trial.Warnings, c.files))
	if err := c.checkWarnings(trial.Warnings); err != nil {
		return err
	}
	dangers := dangersOf(trial)
	if c.dryRun && len(dangers) > 0 {
		_, _ = fmt.Fprintln(c.errs, "This is dangerous and would need confirmation, or --yes: "+cell(strings.Join(dangerTexts(dangers), "; "))+".")
	}
	if c.dryRun {
		return c.status(c.report(trial, answer), trial.Changed, "the rules would change (--detailed-exitcode)")
	}
	if !trial.Changed && trial.Version > 0 {
		return c.report(trial, answer)
	}
	if err := c.confirm(trial, dangers); err != nil {
		return err
	}
	return c.make(ctx, trial)
}

// make publishes the change. If the server refuses it for its impact, make
// forces it once somebody has confirmed the impact.
func (c *wholeChange) make(ctx context.Context, trial *adminclient.Outcome) error {
	outcome, answer, err := c.send(ctx, nil)
	if refused, ok := errors.AsType[*adminclient.Error](err); ok && refused.Code == adminclient.CodeImpact {
		trial.Impact = refused.Impact
		what, _, _ := strings.Cut(refused.Message, " (") // its hint is for callers of the API; confirm has the command's
		if err = c.confirm(trial, []danger{{dangerImpact, what}}); err == nil {
			outcome, answer, err = c.send(ctx, url.Values{"force": {"true"}})
		}
	}
	if err != nil {
		return err
	}
	return c.report(outcome, answer)
}

// send sends the change with the samples of the other servers. It gets them each time, because a
// server refuses samples that were sealed before somebody thought about a question.
func (c *wholeChange) send(ctx context.Context, query url.Values) (*adminclient.Outcome, adminclient.Answer, error) {
	q, out := c.request, &adminclient.Outcome{}
	samples, err := c.samples(ctx)
	if err != nil {
		return nil, adminclient.Answer{}, err
	}
	if q.Body, err = withSamples(q.Body, len(c.files) == 1, samples); err != nil {
		return nil, adminclient.Answer{}, err
	}
	query = maps.Clone(query)
	if query == nil {
		query = url.Values{}
	}
	maps.Copy(query, c.query)
	q.Query, q.IfMatch, q.Comment, q.Change = query, c.tag, c.comment, !query.Has("dry_run")
	a, err := c.client.Into(ctx, q, out)
	return out, a, c.ofServer(err)
}

func (c *wholeChange) report(o *adminclient.Outcome, a adminclient.Answer) error {
	return c.print(a, func(w io.Writer) error { return printOutcome(w, o) })
}

// explained gives the mistakes in an error the names of the local files, and
// shows a concurrent change that prevented this one.
func (c *wholeChange) explained(err error) error {
	refused, ok := errors.AsType[*adminclient.Error](err)
	if !ok {
		return err
	}
	if len(refused.Problems) > 0 {
		return localProblems(refused.Problems, c.files)
	}
	if refused.Code == adminclient.CodePrecondition && refused.Diff != nil {
		_, _ = fmt.Fprintf(c.errs, "Somebody else changed the rules from version %d to %d:\n", refused.Diff.From, refused.Diff.To)
		_ = printDiff(c.errs, refused.Diff)
	}
	return err
}

// localProblems replaces the file names in mistakes or warnings of a server with
// the paths of the local files.
func localProblems(list rule.Problems, files []rule.File) rule.Problems {
	for i := range list {
		for _, f := range files {
			if len(files) == 1 || strings.HasSuffix(f.Name, "/"+list[i].File) {
				list[i].File = f.Name
			}
		}
	}
	return list
}
