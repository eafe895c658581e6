// Command stint is the rate limiter as a program: the server, and the tools
// around it.
//
// Run it where the limits of one or many services are to stand in one place;
// a Go program can have the same limits inside, by the package
// github.com/stintdev/stint. It promises stable commands, flags and exit
// statuses: 0 done, 1 failed while running, 2 wrong usage or configuration.
// Logs and errors go to standard error, results to standard output.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program, without the process around it.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) (status int) {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	if err != nil {
		_, _ = fmt.Fprintln(errs, plain(err.Error()))
	}
	return exitStatus(err)
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "stint",
		Short: "Stint limits how often something may happen",
		Long: `Stint limits how often something may happen: requests of a caller, jobs of a
tenant, attempts of an address.

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
	root.AddCommand(newServeCommand(), newRulesCommand(), newReplayCommand(), newCheckCommand(),
		newKeyCommand(), newNodesCommand(), newVersionCommand())
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args = knownCommand
	}
	return root
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, the commit and the Go version",
		Example: "  stint version",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), versionText(debug.ReadBuildInfo()))
			return err
		},
	}
}

// versionText is what the build says of itself. A build without version
// control says so.
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
