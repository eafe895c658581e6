package main

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
	"github.com/stintdev/stint/cmd/stint/internal/replay"
	"github.com/stintdev/stint/rule"
)

// completionTime bounds the wait for a server while a shell completes a word: the
// shell does not react meanwhile.
const completionTime = 2 * time.Second

// flagValues are the values of the flags that have few.
var flagValues = map[string][]cobra.Completion{
	"clock":             {clockAuto, clockKernel},
	"gateway-adapt":     {"gradient", "aimd", off},
	"log-format":        {"text", "json"},
	"log-level":         {"debug", "info", "warn", "error"},
	"envoy-consistency": {stint.Strict.String(), stint.Leased.String(), stint.Partitioned.String()},
	"retries":           replay.RetryNames(),
	"path-encoding":     {"decode", "keep", "reject"},
	"store-clock":       {clockOfStore, clockOfNode},
	"jwt-invalid":       {jwtMissing, jwtReject},
}

// attributeNames are the attributes of a request that most rules read, as the beginning of
// an argument.
var attributeNames = []cobra.Completion{"api_key=", "ip=", "method=", "path=", "host=", "tier="}

// explainCompletion gives cobra's commands that print a script the help of Stint's own.
func explainCompletion(root *cobra.Command) {
	group, _, err := root.Find([]string{"completion"})
	if err != nil || group == root {
		return
	}
	group.Short = "Print the script that has a shell complete commands, flags and their values"
	group.Long = group.Short + `.

The values are files, the choices of a flag, and what the server knows: the ids of
rules, tiers and versions. The script asks the server of --server or STINT_SERVER,
with the token of --token-file or STINT_TOKEN.`
	group.Example = "  source <(stint completion bash)\n  stint completion zsh > \"${fpath[1]}/_stint\"\n  stint completion fish > ~/.config/fish/completions/stint.fish"
	group.Args, group.RunE = subcommandOnly, missingCommand
	for _, shell := range group.Commands() {
		shell.Short = "Print the script for " + shell.Name()
		shell.Example = "  stint completion " + shell.Name()
	}
}

// completeFlags has shells complete the values of every flag: files and folders, the values
// of flagValues, and nothing for free text.
func completeFlags(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if _, given := c.GetFlagCompletionFunc(f.Name); !given {
			mustComplete(c, f.Name, cobra.FixedCompletions(flagValues[f.Name], directiveOf(f)))
		}
	})
	for _, sub := range c.Commands() {
		completeFlags(sub)
	}
}

// directiveOf tells the shell whether the value of a flag is a path.
func directiveOf(f *pflag.Flag) cobra.ShellCompDirective {
	switch value, _ := pflag.UnquoteUsage(f); value {
	case "FILE", "FILE|DIR|URL":
		return cobra.ShellCompDirectiveDefault
	case "DIR":
		return cobra.ShellCompDirectiveFilterDirs
	}
	return cobra.ShellCompDirectiveNoFileComp
}

// mustComplete registers the completion of a flag that the command has.
func mustComplete(c *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // the flag is not defined, or has a completion already
	}
}

// completeAttributes completes an argument KEY=VALUE.
func completeAttributes(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return attributeNames, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}

// completeRuleFiles completes the name of a rule file.
func completeRuleFiles(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return []cobra.Completion{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
}

// completeVersions completes at most the given number of versions.
func (f *adminFlags) completeVersions(most int) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f.versions(c.Context()), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeDiff completes the arguments of stint rules diff: a file, or one or two versions.
// After a first argument that is a file there is nothing more.
func (f *adminFlags) completeDiff(c *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return f.versions(c.Context()), cobra.ShellCompDirectiveKeepOrder
	}
	if _, err := versionOf(args[0]); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return f.completeVersions(2)(c, args, word)
}

// completeVersionFlag completes the value of a flag that is a version.
func (f *adminFlags) completeVersionFlag(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return f.versions(c.Context()), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// versions returns the newest versions, each with its author and comment.
func (f *adminFlags) versions(ctx context.Context) (list []cobra.Completion) {
	var h adminclient.History
	f.read(ctx, adminclient.Request{Method: http.MethodGet, Path: "/rules/history", Query: url.Values{"n": {"50"}}}, &h)
	for _, v := range h.Versions {
		about := cell(v.Author) + " at " + timestamp(v.Time)
		if v.Comment != "" {
			about += ": " + cell(v.Comment)
		}
		list = append(list, cobra.CompletionWithDesc(strconv.FormatUint(v.Version, 10), about))
	}
	return list
}

// completeRules completes the id of a rule in force.
func (f *adminFlags) completeRules(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var ids []cobra.Completion
	if set := f.rulesInForce(c.Context()); set != nil {
		for _, r := range set.Rules() {
			ids = append(ids, sanitize(r.ID))
		}
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// completeTiers completes the name of a tier in force.
func (f *adminFlags) completeTiers(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	if set := f.rulesInForce(c.Context()); set != nil {
		for _, name := range set.Tiers() {
			names = append(names, sanitize(name))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// rulesInForce returns the rules that the server runs, or nil without an answer.
func (f *adminFlags) rulesInForce(ctx context.Context) *rule.Set {
	var s adminclient.Set
	f.read(ctx, adminclient.Request{Method: http.MethodGet, Path: "/rules"}, &s)
	set, err := rule.Parse(ruleFiles(s.Files)...)
	if err != nil {
		return nil
	}
	return set
}

// read asks the server that the flags name. Without an answer it leaves out unchanged: the
// shell then has nothing to complete, and shows no error.
func (f *adminFlags) read(ctx context.Context, q adminclient.Request, out adminclient.Object) {
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	f.errs = io.Discard
	disconnect, err := f.connect(ctx)
	if err != nil {
		return
	}
	defer disconnect()
	_, _ = f.client.Into(ctx, q, out)
}
