package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagGroup is the annotation of a flag that help lists under a title of its own.
const flagGroup = "group"

// grouped defines flags that help lists under a title.
func grouped(flags *pflag.FlagSet, title string, define func(*pflag.FlagSet)) {
	group := pflag.NewFlagSet(title, pflag.ContinueOnError)
	group.SortFlags = false
	define(group)
	group.VisitAll(func(f *pflag.Flag) {
		f.Annotations = map[string][]string{flagGroup: {title}}
		flags.AddFlag(f)
	})
}

// unsorted has help list the flags of every command in the order of their definition.
func unsorted(c *cobra.Command) {
	c.Flags().SortFlags = false
	for _, sub := range c.Commands() {
		unsorted(sub)
	}
}

// printUsage prints how to use a command: its form, examples, commands and flags. It differs
// from cobra's own in the groups of flags.
func printUsage(c *cobra.Command) error {
	var b strings.Builder
	form := c.UseLine()
	if c.HasAvailableSubCommands() {
		form = c.CommandPath() + " COMMAND"
	}
	b.WriteString("Usage:\n  " + form + "\n")
	if c.HasExample() {
		b.WriteString("\nExamples:\n" + c.Example + "\n")
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n" + commandList(c) + "\n")
	}
	for _, group := range groupsOf(c.LocalFlags()) {
		b.WriteString("\n" + group.title + ":\n" + group.flags.FlagUsages())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nUse \"%s COMMAND --help\" for more about a command.\n", c.CommandPath())
	}
	_, err := fmt.Fprint(c.OutOrStderr(), b.String())
	return err
}

// commandList returns a line for each command below c.
func commandList(c *cobra.Command) string {
	var lines []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" {
			lines = append(lines, fmt.Sprintf("  %-*s %s", sub.NamePadding(), sub.Name(), sub.Short))
		}
	}
	return strings.Join(lines, "\n")
}

// titledFlags are the flags of a group.
type titledFlags struct {
	title string
	flags *pflag.FlagSet
}

// groupsOf returns the groups of flags in the order of their definition. Flags without a
// group come first.
func groupsOf(flags *pflag.FlagSet) []titledFlags {
	groups := []titledFlags{{"Flags", pflag.NewFlagSet("", pflag.ContinueOnError)}}
	flags.VisitAll(func(f *pflag.Flag) {
		i := 0
		if titles := f.Annotations[flagGroup]; len(titles) > 0 {
			if i = slices.IndexFunc(groups, func(g titledFlags) bool { return g.title == titles[0] }); i < 0 {
				i = len(groups)
				groups = append(groups, titledFlags{titles[0], pflag.NewFlagSet("", pflag.ContinueOnError)})
			}
		}
		groups[i].flags.SortFlags = false
		groups[i].flags.AddFlag(f)
	})
	return groups
}
