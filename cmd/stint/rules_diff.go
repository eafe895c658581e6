package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
)

// diffFlags are the flags of the commands that show a change and publish nothing.
type diffFlags struct {
	adminFlags
	pipelineFlags
}

func newDiffCommand() *cobra.Command {
	f := &diffFlags{}
	c := &cobra.Command{
		Use:   "diff FILE | VERSION [VERSION]",
		Short: "Show how a file differs from the rules in force, or versions from each other",
		Long: `Show what a rule file, or a folder of them, would change in the rules in force,
what has changed since a version, or what has changed between two versions.
Nothing is published. A number is a version: write ./3 for a file of that name.
A FILE of - is standard input. Without a difference the output is empty.`,
		Example: "  stint rules diff rules.yaml\n  stint rules diff 11\n  stint rules diff 11 12 --json",
		Args:    arguments(1, 2, "a file, or one or two versions", "rules.yaml, or 11 12"),
		RunE:    f.running(f.diff),
	}
	f.pipelineFlags.define(c, "if there is a difference")
	f.adminFlags.define(c)
	f.defineSource(c)
	c.ValidArgsFunction = f.completeDiff
	return c
}

func (f *diffFlags) diff(ctx context.Context, args []string) error {
	query, err := versionsQuery(args)
	if err != nil && len(args) == 2 {
		return err
	}
	if err != nil {
		return f.diffFile(ctx, args[0])
	}
	var d adminclient.Diff
	q := adminclient.Request{Method: http.MethodGet, Path: "/rules/diff", Query: query}
	err = f.ask(ctx, q, &d, func(w io.Writer) error { return f.printDiff(w, &d) })
	return f.status(err, d.Changed, different)
}

const different = "there is a difference (--detailed-exitcode)"

func versionsQuery(args []string) (url.Values, error) {
	query := url.Values{}
	for i, name := range []string{"from", "to"}[:len(args)] {
		if _, err := versionOf(args[i]); err != nil {
			return nil, err
		}
		query.Set(name, args[i])
	}
	return query, nil
}

func (f *diffFlags) diffFile(ctx context.Context, path string) error {
	v, _, err := f.validate(ctx, path, nil)
	if err != nil {
		return err
	}
	body, err := json.Marshal(v.Diff)
	if err != nil {
		return err
	}
	err = f.print(adminclient.Answer{Body: body}, func(w io.Writer) error { return f.printDiff(w, &v.Diff) })
	return f.status(errors.Join(err, f.checkWarnings(v.Warnings)), v.Diff.Changed, different)
}

// printDiff prints a difference. Standard output stays empty if there is none, as that of
// diff does.
func (f *adminFlags) printDiff(w io.Writer, d *adminclient.Diff) error {
	if !d.Changed {
		_, _ = fmt.Fprintln(f.errs, "no difference")
		return nil
	}
	return printDiff(w, d)
}

// validate has the server validate the rules of a file or folder, without
// publishing them. samples are those of other servers.
func (f *adminFlags) validate(ctx context.Context, path string, samples [][]byte) (*adminclient.Valid, adminclient.Answer, error) {
	files, body, err := rulesBody(path, f.in)
	if err == nil {
		body, err = withSamples(body, len(files) == 1, samples)
	}
	if err != nil {
		return nil, adminclient.Answer{}, err
	}
	v := &adminclient.Valid{}
	a, err := f.client.Into(ctx, adminclient.Request{Method: http.MethodPost, Path: "/rules/validate", Body: body}, v)
	if refused, ok := errors.AsType[*adminclient.Error](err); ok && len(refused.Problems) > 0 {
		err = localProblems(refused.Problems, files)
	}
	if err == nil {
		printWarnings(f.errs, localProblems(v.Warnings, files))
	}
	return v, a, err
}

// impactFlags are the flags of stint rules impact.
type impactFlags struct {
	serversFlags
	pipelineFlags
}

func newImpactCommand() *cobra.Command {
	f := &impactFlags{}
	c := &cobra.Command{
		Use:   "impact FILE",
		Short: "Try rules on the requests of the last minutes, without publishing them",
		Long: `Try a rule file, or a folder of them, on the requests that the node decided in
the last minutes. The command shows how many of the allowed requests these rules
would deny, by which rule, and of which callers; and how many more requests they
would admit than the rules in force, of which callers. HASH tells callers apart whose
keys begin alike, as in stint denied. Nothing is published. A FILE of - is standard
input.

Each server has only its own requests. Give --server several addresses, separated by
commas, to try the rules on the requests of all of them together. Their rules must be in
the same Redis or PostgreSQL, and the command fails if one does not answer.`,
		Example: "  stint rules impact rules.yaml\n  stint rules impact --json rules/\n  stint rules impact --server http://10.0.0.1:6070,http://10.0.0.2:6070 rules.yaml\n  stint rules impact --detailed-exitcode --fail-on-warning rules.yaml",
		Args:    arguments(1, 1, "a file", "rules.yaml"),
		RunE:    f.runningOnAll(f.impact),
	}
	f.pipelineFlags.define(c, "if the rules deny more than --impact-limit of the server")
	f.serversFlags.define(c)
	c.ValidArgsFunction = completeRuleFiles
	return c
}

func (f *impactFlags) impact(ctx context.Context, args []string) error {
	samples, err := f.samples(ctx)
	if err != nil {
		return err
	}
	v, a, err := f.validate(ctx, args[0], samples)
	if err = f.ofServer(err); err != nil {
		return err
	}
	err = f.print(a, func(w io.Writer) error { return printImpact(w, v) })
	if f.detailed && v.Impact == nil {
		return errors.Join(err, errors.New("the impact is unknown, because the server keeps no requests (start it with --impact-limit, or leave out --detailed-exitcode)"))
	}
	above := v.Impact != nil && v.Impact.AboveLimit
	return f.status(errors.Join(err, f.checkWarnings(v.Warnings)), above, "the rules deny more than --impact-limit of the server (--detailed-exitcode)")
}

func printImpact(w io.Writer, v *adminclient.Valid) error {
	l := &printer{w: w}
	if !v.Diff.Changed {
		l.printf("nothing to change: version %d has the same rules\n", v.Diff.From)
	}
	l.summary(&v.Diff)
	if v.Impact == nil {
		l.printf("impact: unknown, the server keeps no requests (--impact-limit off)\n")
	}
	l.impact(v.Impact)
	return l.err
}
