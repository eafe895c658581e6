package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/rulecase"
	"github.com/stintdev/stint/rule"
)

func newRulesTestCommand() *cobra.Command {
	var t ruleTests
	c := &cobra.Command{
		Use:   "test FILE...",
		Short: "Decide the requests of test files, and compare the decisions with the expected ones",
		Long: `Test rules. Each FILE names a rule file, or a folder of them, and holds tests:
requests at given times and the decisions that they must get. The command decides
the requests by the rules in virtual time, on a store of its own in memory, and
prints each test with PASS or FAIL. docs/rule-tests.md has the format.

The exit status is 0 if all tests pass, 1 if a test fails, and 2 if a file has
mistakes; no test runs then.`,
		Example: "  stint rules test tests.yaml\n  stint rules test --run '^orders' --junit report.xml tests/*.yaml",
		Args:    arguments(1, noMaximum, "at least one file", "tests.yaml"),
		RunE: func(c *cobra.Command, paths []string) error {
			t.out, t.errs = c.OutOrStdout(), c.ErrOrStderr()
			return t.run(c.Context(), paths)
		},
	}
	c.Flags().StringVar(&t.pattern, "run", "", "run only the tests whose name matches the regular expression `PATTERN`")
	c.Flags().StringVar(&t.junit, "junit", "", "write a JUnit report to `FILE`; - is standard output, instead of the list of tests")
	c.ValidArgsFunction = completeRuleFiles
	return c
}

// ruleTests is a run of stint rules test.
type ruleTests struct {
	pattern, junit string
	out, errs      io.Writer
}

func (t *ruleTests) run(ctx context.Context, paths []string) error {
	pattern, err := regexp.Compile(t.pattern)
	if err != nil {
		return usagef("run: %w (write it as ^orders)", err)
	}
	files, err := t.read(paths)
	if err == nil {
		err = t.checkReport(paths)
	}
	if err != nil {
		return err
	}
	list := t.out
	if t.junit == standardInput { // - is standard output here
		list = io.Discard
	}
	suites, failed, count := make([]rulecase.Suite, len(files)), 0, 0
	for i, f := range files {
		suites[i].Path = f.Path
		for k := range f.Cases {
			if !pattern.MatchString(f.Cases[k].Name) {
				continue
			}
			r, err := f.Run(ctx, &f.Cases[k], virtualStore)
			if err != nil {
				return err
			}
			count++
			if len(r.Failures) > 0 {
				failed++
			}
			suites[i].Results = append(suites[i].Results, r)
			if err := printResult(list, f.Path, r); err != nil {
				return err
			}
		}
	}
	if count == 0 {
		return usagef("run: no test has a name that matches %q (leave --run out to run all)", t.pattern)
	}
	if err := t.report(suites); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %s failed", failed, counted(count, "test"))
	}
	_, err = fmt.Fprintf(list, "%s passed\n", counted(count, "test"))
	return err
}

// checkReport refuses a report that would replace a file of tests.
func (t *ruleTests) checkReport(paths []string) error {
	report, err := os.Stat(t.junit)
	if err != nil {
		return nil //nolint:nilerr // there is no such file yet
	}
	for _, path := range paths {
		if test, err := os.Stat(path); err == nil && os.SameFile(report, test) {
			return usagef("junit: %s is a file of tests (name another file)", t.junit)
		}
	}
	return nil
}

// virtualStore returns a store in memory with a clock of its own.
func virtualStore(clock func() time.Time) stint.Store {
	return stint.NewMemory(stint.MemoryOptions{KeepAll: true, Clock: clock})
}

// read reads every file, also after one with mistakes.
func (t *ruleTests) read(paths []string) ([]*rulecase.File, error) {
	var files []*rulecase.File
	mistakes := 0
	for _, path := range paths {
		f, err := rulecase.Read(path, func(path string) (*rule.Set, error) { return loadRules(path, nil) })
		if err != nil {
			mistakes += len(problemsOf(path, err))
			_, _ = fmt.Fprintln(t.errs, sanitize(errorText(err))) // the exit status reports it too
			continue
		}
		files = append(files, f)
	}
	return files, mistakesError(mistakes)
}

func printResult(w io.Writer, path string, r *rulecase.Result) error {
	if len(r.Failures) == 0 {
		_, err := fmt.Fprintf(w, "PASS %s (%s)\n", cell(r.Name), counted(r.Requests, "request"))
		return err
	}
	_, err := fmt.Fprintf(w, "FAIL %s (%s)\n", cell(r.Name), counted(r.Requests, "request"))
	for _, line := range rulecase.Lines(path, r) {
		_, failed := fmt.Fprintf(w, "  %s\n", cell(line))
		err = errors.Join(err, failed)
	}
	return err
}

// report writes the JUnit report. A file appears complete or not at all.
func (t *ruleTests) report(suites []rulecase.Suite) error {
	if t.junit == "" {
		return nil
	}
	var text bytes.Buffer
	if err := rulecase.WriteJUnit(&text, suites); err != nil {
		return err
	}
	if t.junit == standardInput {
		_, err := t.out.Write(text.Bytes())
		return err
	}
	return os.WriteFile(t.junit, text.Bytes(), 0o644) //nolint:gosec // build servers read it
}
