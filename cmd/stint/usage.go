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
)

// usageError is wrong usage or configuration: exit status 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// atLeastOne asks for arguments, and says what they would be.
func atLeastOne(what, such string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("%s: %s is missing (give at least one, such as %s)", c.CommandPath(), what, such)
		}
		return nil
	}
}

// exactly asks for one argument, and says what it would be.
func exactly(what, such string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("%s: give %s, such as %s; %s given", c.CommandPath(), what, such, areOrIs(len(args)))
		}
		return nil
	}
}

func atMostOne(what, such string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usagef("%s: give %s at most, such as %s; %s given", c.CommandPath(), what, such, areOrIs(len(args)))
		}
		return nil
	}
}

func areOrIs(n int) string {
	switch n {
	case 0:
		return "none is"
	case 1:
		return "1 is"
	}
	return fmt.Sprintf("%d are", n)
}

func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s: takes no argument, but %q is one (see %[1]s --help)", c.CommandPath(), args[0])
	}
	return nil
}

// wrongFlag names the flag that an unknown one is near, and what a value should
// be.
func wrongFlag(c *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		f := invalid.GetFlag()
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

// subcommandOnly refuses arguments that name none of the commands below.
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

// knownCommand refuses arguments that lead to no command from the root.
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

// exitStatus is the exit status of a command that ended with err. Mistakes in
// rules and limits are configuration wherever they are found, and what a server
// cannot read as a request is wrong usage.
func exitStatus(err error) int {
	var usage usageError
	var problems rule.Problems
	var limit *stint.LimitError
	var refused *adminclient.Error
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &usage), errors.As(err, &problems), errors.As(err, &limit):
		return exitUsage
	case errors.As(err, &refused) && refused.Status == http.StatusBadRequest:
		return exitUsage
	}
	return exitFailed
}
