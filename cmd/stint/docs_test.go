package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func TestEveryFlagOfServeIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/serve.md")
	if err != nil {
		t.Fatal(err)
	}
	set := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	new(serveFlags).define(set)
	set.VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(string(text), "`--"+f.Name) {
			t.Errorf("docs/serve.md does not mention --%s", f.Name)
		}
	})
}

// TestDefaultsInDocumentsAreThoseOfServe compares the defaults in the table of flags.
func TestDefaultsInDocumentsAreThoseOfServe(t *testing.T) {
	text, err := os.ReadFile("../../docs/serve.md")
	if err != nil {
		t.Fatal(err)
	}
	set := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	new(serveFlags).define(set)
	compared := 0
	for _, row := range regexp.MustCompile("(?m)^\\| `--([a-z-]+)[^|`]*` \\| ([^|]*) \\|").FindAllStringSubmatch(strings.ReplaceAll(string(text), `\|`, ","), -1) {
		name, documented := row[1], strings.Trim(row[2], "` ")
		f := set.Lookup(name)
		if f == nil {
			t.Errorf("--%s is in the table and not a flag", name)
			continue
		}
		if f.DefValue == "" || f.DefValue == "[]" || f.DefValue == "false" || strings.Contains(documented, " ") {
			continue // the table says in words what is then in force
		}
		if compared++; strings.Trim(f.DefValue, "[]") != documented {
			t.Errorf("--%s: the default is %s, the table says %s", name, f.DefValue, documented)
		}
	}
	if compared < 20 {
		t.Errorf("%d defaults compared", compared)
	}
}

// otherPrograms are the flags in documents of programs other than stint.
const otherPrograms = " --concurrency "

var (
	fenced      = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	codeSpan    = regexp.MustCompile("`[^`]+`")
	placeholder = regexp.MustCompile("^[A-Z…]")
	flagName    = regexp.MustCompile(`(?:^|[\s(])(--[a-z][a-z-]*[a-z])`)
)

// TestCommandsNamedInDocumentsExist covers commands and flags within sentences and tables,
// which TestCommandsInDocumentsRun does not run.
func TestCommandsNamedInDocumentsExist(t *testing.T) {
	root := newRootCommand()
	flags := map[string]bool{}
	allFlags(root, flags)
	commands := 0
	for _, path := range documents(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, span := range codeSpan.FindAllString(fenced.ReplaceAllString(string(text), ""), -1) {
			code := strings.Trim(span, "`")
			for _, m := range flagName.FindAllStringSubmatch(code, -1) {
				if !flags[m[1]] && !strings.Contains(otherPrograms, " "+m[1]+" ") {
					t.Errorf("%s: %s names %s, which no command has", path, span, m[1])
				}
			}
			words, named := strings.CutPrefix(strings.TrimPrefix(code, "bin/"), "stint ")
			if !named || strings.HasPrefix(words, "--version") {
				continue
			}
			commands++
			c, rest, err := root.Find(strings.Fields(words))
			if err != nil || c == root || c.HasSubCommands() && len(rest) > 0 && placeholder.FindString(rest[0]) == "" {
				t.Errorf("%s: %s is no command: %v", path, span, err)
				continue
			}
			for _, m := range flagName.FindAllStringSubmatch(" "+strings.Join(rest, " "), -1) {
				if c.Flag(strings.TrimPrefix(m[1], "--")) == nil && !strings.Contains(otherPrograms, " "+m[1]+" ") {
					t.Errorf("%s: %s: %s has no %s", path, span, c.CommandPath(), m[1])
				}
			}
		}
	}
	if commands < 60 {
		t.Errorf("%d commands in the documents", commands)
	}
}

func documents(t *testing.T) (paths []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md", "examples/*.md"} {
		found, err := filepath.Glob("../../" + pattern)
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		paths = append(paths, found...)
	}
	return paths
}

// allFlags sets the flags of a command and of those below it.
func allFlags(c *cobra.Command, names map[string]bool) {
	c.InitDefaultHelpFlag()
	c.InitDefaultVersionFlag()
	c.LocalFlags().VisitAll(func(f *pflag.Flag) { names["--"+f.Name] = true })
	for _, sub := range c.Commands() {
		allFlags(sub, names)
	}
}
