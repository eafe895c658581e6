package main

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
	"github.com/stintdev/stint/internal/suggest"
	"github.com/stintdev/stint/rule"
)

// The exit statuses, which scripts rely on.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	// exitDifferent is for --detailed-exitcode alone.
	exitDifferent = 3
)

// exitStatus returns the exit status of a command that ended with err. Mistakes
// in rules and limits are wrong configuration, whether this program or the
// server found them.
func exitStatus(err error) int {
	var different differentError
	var usage usageError
	var problems rule.Problems
	var limit *stint.LimitError
	var refused *adminclient.Error
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &different):
		return exitDifferent
	case errors.As(err, &usage), errors.As(err, &problems), errors.As(err, &limit):
		return exitUsage
	case errors.As(err, &refused) && refused.Status == http.StatusBadRequest:
		return exitUsage
	}
	return exitFailed
}

// differentError marks a result that --detailed-exitcode reports: exit status 3. It comes after
// the output.
type differentError struct{ error }

func (e differentError) Unwrap() error { return e.error }

// usageError marks wrong usage or configuration: exit status 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// noMaximum, as the greatest number of arguments, sets no bound.
const noMaximum = -1

// arguments returns a check of the number of arguments. The error says what the
// command takes and gives an example.
func arguments(least, most int, what, example string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) >= least && (len(args) <= most || most == noMaximum) {
			return nil
		}
		return usagef("%s: got %s (give %s, such as %s)", c.CommandPath(), counted(len(args), "argument"), what, example)
	}
}

func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s: takes no arguments, got %q (see %[1]s --help)", c.CommandPath(), args[0])
	}
	return nil
}

// wrongFlag explains an error of parsing flags: which kind of value a flag
// takes, or which flag an unknown one resembles.
func wrongFlag(c *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		f := invalid.GetFlag()
		if problem, ok := errors.AsType[usageError](invalid.Unwrap()); ok {
			return usagef("--%s: %w", f.Name, problem)
		}
		return usagef("--%s: %q is not a valid %s", f.Name, invalid.GetValue(), kindOf(f))
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var known []string
		c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		if near, ok := suggest.Name(unknown.GetSpecifiedName(), known); ok {
			return usagef("--%s is not a flag (did you mean --%s?)", unknown.GetSpecifiedName(), near)
		}
	}
	return usagef("%v (see %s --help)", err, c.CommandPath())
}

// subcommandOnly rejects an argument that is not the name of a subcommand.
func subcommandOnly(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var known []string
	for _, sub := range c.Commands() {
		known = append(known, sub.Name())
	}
	if near, ok := suggest.Name(args[0], known); ok {
		return usagef("%s: %q is not a command (did you mean %s?)", c.CommandPath(), args[0], near)
	}
	return usagef("%s: %q is not a command (see %[1]s --help)", c.CommandPath(), args[0])
}

// knownCommand rejects arguments that are not the path of a command, as "stint
// help" takes it.
func knownCommand(c *cobra.Command, args []string) error {
	for at := c.Root(); len(args) > 0; args = args[1:] {
		next, _, err := at.Find(args[:1])
		if err != nil || next == at {
			return subcommandOnly(at, args)
		}
		at = next
	}
	return nil
}
