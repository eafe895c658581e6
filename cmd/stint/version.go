package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

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
