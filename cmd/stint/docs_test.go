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
	text := contentOf(t, "../../docs/serve.md")
	set := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	new(serveFlags).define(set)
	set.VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(text, "`--"+f.Name) {
			t.Errorf("docs/serve.md does not mention --%s", f.Name)
		}
	})
}

// TestHelpOfServeHasTheTableOfStores compares what stint serve --help says of each store with the
// table in docs/stores.md: the figures, whether groups over several identities are atomic, and the clock.
func TestHelpOfServeHasTheTableOfStores(t *testing.T) {
	_, table, _ := strings.Cut(contentOf(t, "../../docs/stores.md"), "\n| store | ")
	table, _, _ = strings.Cut(table, "\n\n")
	link := regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
	rows := strings.Split(table, "\n")[2:]
	if len(rows) != 9 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		cells := strings.Split(strings.ReplaceAll(link.ReplaceAllString(row, "$1"), "`", ""), " | ")
		store, figures, hot, groups, clock := strings.TrimPrefix(cells[0], "| "), cells[1], cells[2], cells[5], cells[6]
		help := regexp.MustCompile(`(?m)^  `+store+` .*$`).FindAllString(newServeCommand().Long, -1)
		if len(help) != 3 {
			t.Errorf("%s: the help says %q", store, help)
			continue
		}
		if measured := regexp.MustCompile(`^[0-9]`).MatchString(figures); measured && !regexp.MustCompile(regexp.QuoteMeta(figures)+` +`+hot+` `).MatchString(help[1]) {
			t.Errorf("%s: the document has %q and %q, the help %q", store, figures, hot, help[1])
		}
		if strings.Contains(help[2], " atomic ") != (groups == "atomic") {
			t.Errorf("%s: the document has %q, the help %q", store, groups, help[2])
		}
		if !strings.HasSuffix(help[2], "  "+clock) {
			t.Errorf("%s: the document has %q, the help %q", store, clock, help[2])
		}
	}
}

// TestDefaultsInDocumentsAreThoseOfServe compares the defaults in the table of flags.
func TestDefaultsInDocumentsAreThoseOfServe(t *testing.T) {
	text := contentOf(t, "../../docs/serve.md")
	set := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	new(serveFlags).define(set)
	compared := 0
	for _, row := range regexp.MustCompile("(?m)^\\| `--([a-z-]+)[^|`]*` \\| ([^|]*) \\|").FindAllStringSubmatch(strings.ReplaceAll(text, `\|`, ","), -1) {
		name, documented := row[1], strings.Trim(row[2], "` ")
		f := set.Lookup(name)
		if f == nil {
			t.Errorf("--%s is in the table and not a flag", name)
			continue
		}
		if f.DefValue == "" || f.DefValue == "[]" || f.DefValue == "false" || strings.Contains(documented, " ") {
			continue // the table says in words what is then in force
		}
		if compared++; strings.Trim(f.DefValue, "[]") != documented && (f.DefValue != "0s" || documented != "0") {
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
	stintLine   = regexp.MustCompile(`(?m)^[\s#]*(?:[A-Z_]+=\S* )?stint (.*)$`)
)

// TestCommandsNamedInDocumentsExist covers commands and flags within sentences and tables,
// which TestCommandsInDocumentsRun does not run.
func TestCommandsNamedInDocumentsExist(t *testing.T) {
	root := newRootCommand()
	flags := map[string]bool{}
	allFlags(root, flags)
	commands := 0
	for _, path := range files(t, "*.md", "docs/*.md", "docs/decisions/*.md", "examples/*.md") {
		for _, span := range codeSpan.FindAllString(fenced.ReplaceAllString(contentOf(t, path), ""), -1) {
			code := strings.Trim(span, "`")
			for _, m := range flagName.FindAllStringSubmatch(code, -1) {
				if !flags[m[1]] && !strings.Contains(otherPrograms, " "+m[1]+" ") {
					t.Errorf("%s: %s names %s, which no command has", path, span, m[1])
				}
			}
			if words, named := strings.CutPrefix(strings.TrimPrefix(code, "bin/"), "stint "); named {
				commands++
				commandExists(t, root, path, words)
			}
		}
	}
	if commands < 60 {
		t.Errorf("%d commands in the documents", commands)
	}
}

// TestExamplesOfHelpAndDeployExist covers the examples of --help, and the commands in the
// comments of deploy/.
func TestExamplesOfHelpAndDeployExist(t *testing.T) {
	root := newRootCommand()
	texts := map[string]string{}
	for _, path := range files(t, "deploy/*.yaml", "deploy/*/*", "docs/runbooks/*.md") {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			texts[path] = contentOf(t, path)
		}
	}
	examples(root, texts)
	commands := 0
	for where, text := range texts {
		for _, m := range stintLine.FindAllStringSubmatch(text, -1) {
			commands++
			commandExists(t, root, where, m[1])
		}
	}
	if commands < 60 {
		t.Errorf("%d commands", commands)
	}
}

// commandExists reports a command line without the leading "stint" that names a command or
// a flag which does not exist.
func commandExists(t *testing.T, root *cobra.Command, where, words string) {
	t.Helper()
	c, rest, err := root.Find(strings.Fields(words))
	if words == "--version" {
		return
	}
	if err != nil || c == root || c.HasSubCommands() && len(rest) > 0 && placeholder.FindString(rest[0]) == "" {
		t.Errorf("%s: stint %s is no command: %v", where, words, err)
		return
	}
	for _, m := range flagName.FindAllStringSubmatch(" "+strings.Join(rest, " "), -1) {
		if c.Flag(strings.TrimPrefix(m[1], "--")) == nil {
			t.Errorf("%s: %s has no %s", where, c.CommandPath(), m[1])
		}
	}
}

// examples sets the examples of a command and of those below it.
func examples(c *cobra.Command, texts map[string]string) {
	texts[c.CommandPath()+" --help"] = c.Example
	for _, sub := range c.Commands() {
		examples(sub, texts)
	}
}

func contentOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// files returns the paths of the files that match patterns, from the top folder.
func files(t *testing.T, patterns ...string) (paths []string) {
	t.Helper()
	for _, pattern := range patterns {
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
