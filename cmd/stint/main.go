// Command stint is the rate limiter as a program: the server, and the tools
// around it.
//
// Use it where the limits of one or several services belong in one place. A Go
// program can instead embed the same limits with the package
// github.com/stintdev/stint. Commands, flags and exit statuses are stable: 0
// done, 1 failed while running, 2 wrong usage or configuration. Logs and errors
// go to standard error, results to standard output.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run runs the command that args name and returns the exit status.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) (status int) {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	if err != nil {
		_, _ = fmt.Fprintln(errs, sanitize(errorText(err)))
	}
	return exitStatus(err)
}

// errorText returns the text of an error. One of a file that does not exist gets a mend, because
// the system's has none.
func errorText(err error) string {
	text := err.Error()
	if errors.Is(err, fs.ErrNotExist) && !strings.HasSuffix(text, ")") {
		text += " (check the name, and the folder in which the command runs)"
	}
	return text
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "stint",
		Short: "Stint is a rate limiter: a server, and tools for its rules and keys",
		Long: `Stint is a rate limiter: a server that decides whether a caller may make one
more request, and tools for its rules and keys.

Exit status: 0 done, 1 failed while running, 2 wrong usage or configuration.
Logs and errors go to standard error, results to standard output.`,
		Example:       "  stint serve\n  stint check api_key=alice method=GET path=/v1/orders",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          subcommandOnly,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.Version = versionText(debug.ReadBuildInfo())
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(wrongFlag)
	root.SetUsageFunc(printUsage)
	root.AddCommand(newServeCommand(), newRulesCommand(), newReplayCommand(), newSuggestCommand(), newCheckCommand(),
		newKeyCommand(), newDeniedCommand(), newEmergencyCommand(), newNodesCommand(), newStoreCommand(), newVersionCommand())
	unsorted(root)
	completeFlags(root)
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.InitDefaultCompletionCmd("completion")
	explainCompletion(root)
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args = knownCommand
	}
	return root
}

// newGroupCommand returns a command that does nothing but hold others. Called alone it
// lists them.
func newGroupCommand(use, short, example string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Example: example, Args: subcommandOnly,
		RunE: missingCommand,
	}
	c.AddCommand(commands...)
	return c
}

func missingCommand(c *cobra.Command, _ []string) error {
	return usagef("%s: a command is missing (give one of these)\n%s", c.CommandPath(), commandList(c))
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, the commit and the Go version",
		Example: "  stint version",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), c.Root().Version)
			return err
		},
	}
}

// versionText returns the version, the commit and the Go version of a build.
func versionText(info *debug.BuildInfo, ok bool) string {
	if !ok {
		return "stint (unknown version)"
	}
	commit, modified := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = " (modified)"
		}
	}
	version := info.Main.Version
	if version == "" {
		version = "(devel)"
	}
	return fmt.Sprintf("stint %s, commit %s%s, %s", version, commit, modified, info.GoVersion)
}
