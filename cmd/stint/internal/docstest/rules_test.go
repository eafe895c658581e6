// Package docstest tests that the rules in the documents load, and that they decide as
// their documents say: each has tests in the form of stint rules test.
package docstest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/rulecase"
	"github.com/stintdev/stint/rule"
)

const (
	top = "../../../.."

	// cases is the folder of the tests. Those of a rule set in a document are in
	// PAGE/HEADING.yaml, without the docs/ of the page. Further sets under one heading have
	// -2, -3 and so on behind it. Those of a rule file have the path of the file.
	cases = "docs/testdata/rules"

	// shownRules is the file that the tests of a rule set in a document name as their rules.
	shownRules = "rules.yaml"
)

var (
	// block is a heading, or a block of code with its language.
	block    = regexp.MustCompile("(?ms)^#+ ([^\n]+)$|^ *```(\\w*)\n(.*?)^ *```")
	isRules  = regexp.MustCompile(`(?m)^ *"?(rules|tiers|allow|deny)"?:`)
	isCases  = regexp.MustCompile(`(?m)^ *tests:`)
	isGroups = regexp.MustCompile(`(?m)^groups:`) // rules of Prometheus
	notSlug  = regexp.MustCompile(`[^a-z0-9]+`)
)

// TestRulesInDocumentsHold runs the tests of every rule set that a document shows, of every
// rule file of deploy/ and examples/, and of the built-in rules. A rule set without tests fails.
func TestRulesInDocumentsHold(t *testing.T) {
	sets := map[string]string{} // the text of each rule set, by the path of its tests
	for path, text := range texts(t, ".", ".md") {
		addShown(sets, path, text)
	}
	shown := len(sets)
	for _, folder := range []string{"deploy", "examples"} {
		for path, text := range texts(t, folder, ".yaml", ".yml", ".json") {
			if isRules.MatchString(text) && !isGroups.MatchString(text) {
				sets[filepath.Join(cases, path)] = text
			}
		}
	}
	sets[filepath.Join(cases, "rule/builtin.yaml")] = string(rule.BuiltinFile().Data)
	if shown < 20 || len(sets) == shown {
		t.Errorf("found %d rule sets in documents, and %d files", shown, len(sets)-shown)
	}
	for path, text := range sets {
		t.Run(path, func(t *testing.T) { hold(t, path, text) })
	}
	for path := range texts(t, cases, ".yaml") {
		if _, used := sets[path]; !used {
			t.Errorf("%s tests rules that no document shows", path)
		}
	}
}

// addShown adds the rule sets that a document shows.
func addShown(sets map[string]string, path, text string) {
	page := filepath.Join(cases, strings.TrimSuffix(strings.TrimPrefix(path, "docs/"), ".md"))
	heading := ""
	for _, m := range block.FindAllStringSubmatch(text, -1) {
		if m[1] != "" {
			heading = strings.Trim(notSlug.ReplaceAllString(strings.ToLower(m[1]), "-"), "-")
			continue
		}
		if m[2] != "yaml" || !isRules.MatchString(m[3]) || isCases.MatchString(m[3]) {
			continue
		}
		name := filepath.Join(page, heading+".yaml")
		for n := 2; sets[name] != ""; n++ {
			name = filepath.Join(page, fmt.Sprintf("%s-%d.yaml", heading, n))
		}
		sets[name] = m[3]
	}
}

// hold runs the tests in a file, for the rules of a text.
func hold(t *testing.T, path, text string) {
	set, err := rule.Parse(rule.File{Name: shownRules, Data: []byte(text)})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	f, err := rulecase.Read(filepath.Join(top, path), func(string) (*rule.Set, error) { return set, nil })
	if err != nil {
		t.Fatalf("%v\nWrite tests, as docs/rule-tests.md says, with `rules: %s`, for\n%s", err, shownRules, text)
	}
	for i := range f.Cases {
		r, err := f.Run(t.Context(), &f.Cases[i], func(clock func() time.Time) stint.Store {
			return stint.NewMemory(stint.MemoryOptions{KeepAll: true, Clock: clock})
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range rulecase.Lines(path, r) {
			t.Errorf("%s: %s", r.Name, line)
		}
	}
}

// texts returns the files below a folder with one of the extensions, by their paths from
// the top.
func texts(t *testing.T, folder string, extensions ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(filepath.Join(top, folder), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != filepath.Join(top, folder) && (strings.HasPrefix(name, ".") || name == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		for _, extension := range extensions {
			if filepath.Ext(path) != extension {
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			from, err := filepath.Rel(top, path)
			if err != nil {
				return err
			}
			found[from] = string(text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
