// Package docs tests that the documents hold: their links lead somewhere, and the files
// and folders that they name exist. Package docstest of the program tests their rules.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link        = regexp.MustCompile(`\]\(([^)#{]+)(#[^)]*)?\)`)
	code        = regexp.MustCompile("`([^`\n]+)`")
	testedWith  = regexp.MustCompile(`(?m)^## (\S+)\n\nTested with (v\S+)\. `)
	requirement = regexp.MustCompile(`(?m)^\t(\S+?)(?:/v\d+)? (v\S+)$`)
	sourcePath  = regexp.MustCompile(`^[\w.-]+(/[\w.-]+)*/?$`)
)

func documents(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, pattern := range []string{"*.md", "decisions/*.md"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			found[path] = string(text)
		}
	}
	return found
}

// repository returns every document of the repository, by its path from the top.
func repository(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		found[path] = string(text)
		return err
	})
	if err != nil || len(found) == 0 {
		t.Fatal(len(found), err)
	}
	return found
}

func TestLinksLeadSomewhere(t *testing.T) {
	for path, text := range repository(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

// TestNamedFilesExist covers paths in code quotes, from the top of the repository: Go files,
// and whatever begins with a folder of the repository. A reader who looks for a
// file that has moved loses trust in the rest of the page.
func TestNamedFilesExist(t *testing.T) {
	seen := 0
	for path, text := range repository(t) {
		for _, m := range code.FindAllStringSubmatch(text, -1) {
			if named := m[1]; namesSource(named) {
				seen++
				if _, err := os.Stat(filepath.Join("..", named)); err != nil {
					t.Errorf("%s names %s, which does not exist (write the path from the top of the repository)", path, named)
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no document names a file")
	}
}

// namesSource reports whether a text in code quotes names a file or a folder of the
// repository.
func namesSource(text string) bool {
	if !sourcePath.MatchString(text) || text == "rule/limit" { // rule/limit is the name of a policy
		return false
	}
	first, _, below := strings.Cut(text, "/")
	if first == ".cache" { // is not part of the repository, and another part of it exists on each machine
		return false
	}
	if below {
		top, err := os.Stat(filepath.Join("..", first))
		return err == nil && top.IsDir()
	}
	return strings.HasSuffix(text, ".go")
}

func TestIndexListsEveryDecision(t *testing.T) {
	index, err := os.ReadFile(filepath.Join("decisions", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for path := range documents(t) {
		if name := filepath.Base(path); filepath.Dir(path) == "decisions" && name != "README.md" && !strings.Contains(string(index), "("+name+")") {
			t.Errorf("decisions/README.md does not list %s", name)
		}
	}
}

// TestMigratingNamesTheTestedVersions compares the versions that the page names with those
// that its code requires.
func TestMigratingNamesTheTestedVersions(t *testing.T) {
	page, err := os.ReadFile("migrating.md")
	if err != nil {
		t.Fatal(err)
	}
	requirements, err := os.ReadFile("../examples/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	sections := testedWith.FindAllStringSubmatch(string(page), -1)
	if len(sections) != strings.Count(string(page), "Tested with") {
		t.Errorf("%d sections name a library and a version", len(sections))
	}
	for _, m := range sections {
		library, version := m[1], m[2]
		found := slices.ContainsFunc(requirement.FindAllStringSubmatch(string(requirements), -1), func(r []string) bool {
			module := r[1]
			return r[2] == version && (strings.HasSuffix(module, library) || strings.HasPrefix(library, module+"/"))
		})
		if !found {
			t.Errorf("examples/go.mod does not require %s %s", library, version)
		}
	}
}
