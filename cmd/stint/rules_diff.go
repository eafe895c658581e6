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

func newDiffCommand() *cobra.Command {
	f := &adminFlags{}
	c := &cobra.Command{
		Use:   "diff FILE | VERSION [VERSION]",
		Short: "Show how rules differ from those in force, or versions from each other",
		Long: `Show what a rule file, or a folder of them, would change of the rules in force;
or what has changed since a version, or between two. Nothing is published. A
number is a version; a file of that name is ./3, and - is standard input.`,
		Example: "  stint rules diff rules.yaml\n  stint rules diff 11\n  stint rules diff 11 12 --json",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 1 || len(args) == 2 {
				return nil
			}
			return usagef("%s: give a file, or one or two versions, such as rules.yaml, or 11 12", c.CommandPath())
		},
		RunE: f.running(func(ctx context.Context, args []string) error { return f.diff(ctx, args) }),
	}
	f.define(c)
	f.defineSource(c)
	return c
}

func (f *adminFlags) diff(ctx context.Context, args []string) error {
	query, err := versionsQuery(args)
	if err != nil && len(args) == 2 {
		return err
	}
	if err != nil {
		return f.diffFile(ctx, args[0])
	}
	var d adminclient.Diff
	q := adminclient.Request{Method: http.MethodGet, Path: "/rules/diff", Query: query}
	return f.ask(ctx, q, &d, func(w io.Writer) error { return printDiff(w, &d) })
}

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

func (f *adminFlags) diffFile(ctx context.Context, path string) error {
	v, _, err := f.tried(ctx, path)
	if err != nil {
		return err
	}
	body, err := json.Marshal(v.Diff)
	if err != nil {
		return err
	}
	return f.print(adminclient.Answer{Body: body}, func(w io.Writer) error { return printDiff(w, &v.Diff) })
}

// tried is what the server says of the rules in a file or folder.
func (f *adminFlags) tried(ctx context.Context, path string) (*adminclient.Valid, adminclient.Answer, error) {
	files, err := readRules(path, f.in)
	if err != nil {
		return nil, adminclient.Answer{}, err
	}
	body, err := setBody(files, path)
	if err != nil {
		return nil, adminclient.Answer{}, err
	}
	v := &adminclient.Valid{}
	a, err := f.client.Into(ctx, adminclient.Request{Method: http.MethodPost, Path: "/rules/validate", Body: body}, v)
	if refused, ok := errors.AsType[*adminclient.Error](err); ok && len(refused.Problems) > 0 {
		err = localProblems(refused.Problems, files)
	}
	if err == nil {
		printWarnings(f.errs, v.Warnings)
	}
	return v, a, err
}

func newImpactCommand() *cobra.Command {
	f := &adminFlags{}
	c := &cobra.Command{
		Use:   "impact FILE",
		Short: "Try rules on the requests of the last minutes, without publishing them",
		Long: `Try a rule file, or a folder of them, on the requests that the node has decided
in the last minutes: how many of those that were allowed these rules would deny,
by which rule, and of whom. Nothing is published. FILE may be -, for standard
input.`,
		Example: "  stint rules impact rules.yaml\n  stint rules impact --json rules/",
		Args:    exactly("a file", "rules.yaml"),
		RunE:    f.running(func(ctx context.Context, args []string) error { return f.impact(ctx, args[0]) }),
	}
	f.define(c)
	return c
}

func (f *adminFlags) impact(ctx context.Context, path string) error {
	v, a, err := f.tried(ctx, path)
	if err != nil {
		return err
	}
	return f.print(a, func(w io.Writer) error {
		l := &lines{w: w}
		if !v.Diff.Changed {
			l.printf("nothing to change: version %d says so already\n", v.Diff.From)
		}
		l.summary(&v.Diff)
		if v.Impact == nil {
			_, err := fmt.Fprintln(w, "impact: not known, for the server keeps no requests (--impact-limit off)")
			return errors.Join(l.err, err)
		}
		return errors.Join(l.err, printImpact(w, v.Impact))
	})
}
